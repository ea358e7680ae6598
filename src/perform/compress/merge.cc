#include "perform/compress/merge.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/check.h"

namespace tombolo::compress {
namespace {

// Beyond every block's number.
constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

// Where the merge is in one update.
struct Reader {
  const Blocks* update = nullptr;
  float factor = 1;
  size_t at = 0;
  uint64_t id = kNone;

  void read() { id = at < update->ids.size() ? update->ids[at] : kNone; }
  const float* values() const { return update->values.data() + at * kBlock; }
};

void take(const Reader& from, bool first, float* to) {
  const float* const values = from.values();
  const float factor = from.factor;
  if (first) {
    for (int64_t i = 0; i < kBlock; ++i) to[i] = factor * values[i];
  } else {
    for (int64_t i = 0; i < kBlock; ++i) to[i] += factor * values[i];
  }
}

std::vector<Reader> readers_of(std::span<const Blocks> updates, std::span<const float> factors) {
  CHECK(!updates.empty() && updates.size() <= UINT16_MAX, "{} updates", updates.size());
  CHECK(factors.empty() || factors.size() == updates.size(), "{} factors of {} updates",
        factors.size(), updates.size());
  std::vector<Reader> readers(updates.size());
  for (size_t i = 0; i < updates.size(); ++i) {
    CHECK(updates[i].length == updates[0].length, "updates of {} and {} elements",
          updates[i].length, updates[0].length);
    CHECK(updates[i].values.size() == updates[i].ids.size() * kBlock, "{} values of {} blocks",
          updates[i].values.size(), updates[i].ids.size());
    readers[i] = {.update = &updates[i], .factor = factors.empty() ? 1.0f : factors[i]};
    readers[i].read();
  }
  return readers;
}

}  // namespace

void merge(std::span<const Blocks> updates, std::span<const float> factors, Merged& to) {
  std::vector<Reader> readers = readers_of(updates, factors);
  size_t room = 0;
  for (const Blocks& update : updates) room += update.ids.size();
  to.blocks.length = updates[0].length;
  to.blocks.ids.resize(room);
  to.blocks.values.resize(room * kBlock);
  to.senders.resize(room);
  size_t count = 0;
  while (true) {
    uint64_t id = kNone;
    for (const Reader& reader : readers) id = std::min(id, reader.id);
    if (id == kNone) break;
    float* const values = to.blocks.values.data() + count * kBlock;
    uint16_t senders = 0;
    for (Reader& reader : readers) {
      if (reader.id != id) continue;
      take(reader, senders == 0, values);
      ++senders;
      ++reader.at;
      reader.read();
      CHECK(reader.id > id, "block {} after {}", reader.id, id);
    }
    to.blocks.ids[count] = static_cast<uint32_t>(id);
    to.senders[count++] = senders;
  }
  to.blocks.ids.resize(count);
  to.blocks.values.resize(count * kBlock);
  to.senders.resize(count);
}

void divide_by_senders(Merged& merged) {
  for (size_t b = 0; b < merged.senders.size(); ++b) {
    if (merged.senders[b] == 1) continue;
    const auto senders = static_cast<float>(merged.senders[b]);
    float* const values = merged.blocks.values.data() + b * kBlock;
    for (int64_t i = 0; i < kBlock; ++i) values[i] /= senders;
  }
}

}  // namespace tombolo::compress
