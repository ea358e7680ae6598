#include "perform/compress/chunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/vectorised.h"

namespace tombolo::compress {
namespace {

static_assert(std::endian::native == std::endian::little, "codes are copied as they lie in memory");

constexpr size_t kValuesTogether = static_cast<size_t>(kBlock);

struct ChunkHeader {
  uint32_t magic = 0x55436254;  // "TbCU"
  uint8_t version = 1;
  uint8_t values = 0;
  uint16_t per_chunk = 0;
  uint64_t length = 0;
  uint64_t reserved = 0;
};
static_assert(sizeof(ChunkHeader) == 24);

// Of a chunk of `numbers` numbers.
int64_t chosen_of(int64_t numbers, int64_t per_chunk) {
  return std::max<int64_t>(1, (numbers * per_chunk + kChunk / 2) / kChunk);
}

// Where the parts of a message lie.
struct ChunkMessage {
  size_t positions = 0, scales = 0, codes = 0, size = 0;

  ChunkMessage(size_t count, Values values) {
    const size_t groups = (count + kValuesTogether - 1) / kValuesTogether;
    positions = sizeof(ChunkHeader);
    scales = positions + (3 * count + 1) / 2;
    codes = scales + (has_scales(values) ? groups : 0);
    size = codes + groups * code_bytes(values);
  }
};

// 12 bits each, two in three bytes.
void put_position(uint8_t* to, size_t place, uint32_t position) {
  uint8_t* const at = to + place / 2 * 3;
  if (place % 2 == 0) {
    at[0] = static_cast<uint8_t>(position);
    at[1] = static_cast<uint8_t>(position >> 8);
  } else {
    at[1] = static_cast<uint8_t>(at[1] | (position << 4));
    at[2] = static_cast<uint8_t>(position >> 4);
  }
}

uint32_t position_at(const uint8_t* from, size_t place) {
  const uint8_t* const at = from + place / 2 * 3;
  if (place % 2 == 0) return at[0] | (at[1] & 0xFu) << 8;
  return uint32_t{at[1]} >> 4 | uint32_t{at[2]} << 4;
}

// Magnitudes order as their bits do.
uint32_t magnitude(float number) { return std::bit_cast<uint32_t>(number) & 0x7FFFFFFF; }

// into = decay * into + more; returns 0 where all are finite numbers, else no number.
TOMBOLO_VECTORISED
float accumulate_chunk(float decay, const float* __restrict more, float* __restrict into,
                       size_t size) {
  std::array<float, kBlock> difference{};  // of each with itself
  size_t begin = 0;
  for (; begin + kBlock <= size; begin += kBlock) {
    for (size_t i = 0; i < kBlock; ++i) {
      const float sum = decay * into[begin + i] + more[begin + i];
      into[begin + i] = sum;
      difference[i] += sum - sum;
    }
  }
  for (; begin < size; ++begin) {
    into[begin] = decay * into[begin] + more[begin];
    difference[0] += into[begin] - into[begin];
  }
  float all = 0;
  for (const float each : difference) all += each;
  return all;
}

// Of each 16 numbers of a whole chunk, below zero where all have less than this magnitude.
TOMBOLO_VECTORISED
void note_large(const float* __restrict numbers, int32_t bound, int32_t* __restrict large) {
  for (size_t block = 0; block < kChunk / kBlock; ++block) {
    std::array<int32_t, kBlock> less;  // below zero: it is
    for (size_t i = 0; i < kBlock; ++i)
      less[i] = (std::bit_cast<int32_t>(numbers[block * kBlock + i]) & 0x7FFFFFFF) - bound;
    for (size_t i = 0; i < 8; ++i) less[i] &= less[i + 8];
    for (size_t i = 0; i < 4; ++i) less[i] &= less[i + 4];
    large[block] = less[0] & less[1] & less[2] & less[3];
  }
}

// Finds the largest numbers of one chunk after the other. Neighbours are alike, so those at least nine
// tenths as large as the last chunk's least one are looked at alone, where they are enough.
class LargestOfChunks {
 public:
  // Appends the indices of the `count` numbers with the largest magnitudes, ascending.
  void append(std::span<const float> numbers, size_t begin, size_t count,
              std::vector<uint32_t>& ids) {
    if (!find_candidates(numbers, count)) {
      found_ = numbers.size();
      std::iota(candidates_.begin(), candidates_.begin() + static_cast<ptrdiff_t>(found_), 0);
    }
    for (size_t i = 0; i < found_; ++i) magnitudes_[i] = magnitude(numbers[candidates_[i]]);
    const auto end = magnitudes_.begin() + static_cast<ptrdiff_t>(found_);
    const auto last = magnitudes_.begin() + static_cast<ptrdiff_t>(count) - 1;
    std::nth_element(magnitudes_.begin(), last, end, std::greater<>());
    const uint32_t least = *last;
    // How many of those with exactly the least magnitude are taken: the first ones.
    int64_t equal = 1 + std::count(magnitudes_.begin(), last, least);
    for (size_t i = 0; i < found_; ++i) {
      const uint32_t here = magnitude(numbers[candidates_[i]]);
      if (here < least || (here == least && equal-- <= 0)) continue;
      ids.push_back(static_cast<uint32_t>(begin) + candidates_[i]);
    }
    bound_ = 0.9f * std::bit_cast<float>(least);
  }

 private:
  bool find_candidates(std::span<const float> numbers, size_t count) {
    if (std::ssize(numbers) != kChunk || !(bound_ > 0)) return false;
    const uint32_t bound = std::bit_cast<uint32_t>(bound_);
    std::array<int32_t, kChunk / kBlock> large;
    note_large(numbers.data(), static_cast<int32_t>(bound), large.data());
    found_ = 0;
    for (size_t block = 0; block < large.size(); ++block) {
      if (large[block] < 0) continue;
      const auto from = static_cast<uint32_t>(block * kBlock);
      for (uint32_t i = from; i < from + kBlock; ++i) {
        candidates_[found_] = i;
        found_ += magnitude(numbers[i]) >= bound ? 1 : 0;
      }
    }
    return found_ >= count;
  }

  float bound_ = 0;
  size_t found_ = 0;                             // of these:
  std::array<uint32_t, kChunk + 1> candidates_;  // indices within the chunk
  std::array<uint32_t, kChunk> magnitudes_;
};

tl::unexpected<Error> refused_chunks(std::string why) {
  return failed(fmt::format("an update by chunks {}", why));
}

Result<ChunkHeader> checked_chunk_header(std::span<const std::byte> message, int64_t length) {
  ChunkHeader header;
  if (message.size() < sizeof header)
    return refused_chunks(fmt::format("of {} bytes is shorter than its header", message.size()));
  std::memcpy(&header, message.data(), sizeof header);
  if (header.magic != ChunkHeader{}.magic) return refused_chunks("does not begin like one");
  if (header.version != 1)
    return refused_chunks(fmt::format("has version {}, this program knows 1", header.version));
  if (header.values >= kValuesCount || header.reserved != 0)
    return refused_chunks(fmt::format("has values of kind {}", header.values));
  if (header.per_chunk < 1 || header.per_chunk > kChunk)
    return refused_chunks(fmt::format("has {} numbers of a chunk", header.per_chunk));
  if (header.length != static_cast<uint64_t>(length)) {
    return refused_chunks(
        fmt::format("is of a tensor of {} elements, not {}", header.length, length));
  }
  const auto count = static_cast<size_t>(chosen_numbers(length, header.per_chunk));
  const ChunkMessage places(count, static_cast<Values>(header.values));
  if (message.size() != places.size)
    return refused_chunks(fmt::format("has {} bytes instead of {}", message.size(), places.size));
  return header;
}

// The indices that its positions say: ascending, and within the tensor.
Result<std::vector<uint32_t>> decoded_ids(const uint8_t* positions, int64_t length,
                                          int64_t per_chunk) {
  std::vector<uint32_t> ids(static_cast<size_t>(chosen_numbers(length, per_chunk)));
  size_t place = 0;
  for (int64_t begin = 0; begin < length; begin += kChunk) {
    const int64_t numbers = std::min(kChunk, length - begin);
    int64_t before = -1;
    for (int64_t i = chosen_of(numbers, per_chunk); i > 0; --i, ++place) {
      const int64_t position = position_at(positions, place);
      if (position <= before || position >= numbers) {
        return refused_chunks(
            fmt::format("has position {} after {} in a chunk of {}", position, before, numbers));
      }
      ids[place] = static_cast<uint32_t>(begin + position);
      before = position;
    }
  }
  if (place % 2 == 1 && positions[place / 2 * 3 + 1] >> 4 != 0)
    return refused_chunks("has a position too many");
  return ids;
}

}  // namespace

int64_t numbers_of_chunk(double density) {
  CHECK(density > 0 && density <= 1, "a density of {}", density);
  return std::clamp<int64_t>(std::llround(density * kChunk), 1, kChunk);
}

int64_t chosen_numbers(int64_t length, int64_t per_chunk) {
  CHECK(length >= 0 && length <= kChunkedLengthMax, "a tensor of {} elements", length);
  CHECK(per_chunk >= 1 && per_chunk <= kChunk, "{} numbers of a chunk", per_chunk);
  const int64_t rest = length % kChunk;
  return length / kChunk * per_chunk + (rest > 0 ? chosen_of(rest, per_chunk) : 0);
}

Result<std::vector<std::byte>> compress_chunks(const ChunkOptions& options,
                                               std::span<const float> gradient,
                                               std::span<float> residual) {
  CHECK(gradient.size() == residual.size(), "{} gradients and {} residuals", gradient.size(),
        residual.size());
  const auto decay = static_cast<float>(options.decay);
  bool finite = true;
  std::vector<uint32_t> ids;
  ids.reserve(static_cast<size_t>(chosen_numbers(std::ssize(residual), options.per_chunk)));
  LargestOfChunks largest;
  for (size_t begin = 0; begin < residual.size(); begin += kChunk) {
    const auto chunk = residual.subspan(begin, std::min<size_t>(kChunk, residual.size() - begin));
    finite &= accumulate_chunk(decay, gradient.data() + begin, chunk.data(), chunk.size()) == 0;
    const auto count = static_cast<size_t>(chosen_of(std::ssize(chunk), options.per_chunk));
    largest.append(chunk, begin, count, ids);
  }
  if (!finite) {
    const auto strange = std::count_if(residual.begin(), residual.end(),
                                       [](float each) { return !std::isfinite(each); });
    return failed(fmt::format("{} numbers are not finite", strange));
  }
  const ChunkMessage places(ids.size(), options.values);
  std::vector<std::byte> message(places.size);
  const ChunkHeader header{.values = static_cast<uint8_t>(options.values),
                           .per_chunk = static_cast<uint16_t>(options.per_chunk),
                           .length = gradient.size()};
  std::memcpy(message.data(), &header, sizeof header);
  auto* const bytes = reinterpret_cast<uint8_t*>(message.data());
  for (size_t i = 0; i < ids.size(); ++i)
    put_position(bytes + places.positions, i, ids[i] % static_cast<uint32_t>(kChunk));
  uint8_t *scale = bytes + places.scales, *code = bytes + places.codes;
  for (size_t begin = 0; begin < ids.size(); begin += kValuesTogether) {
    const size_t count = std::min(kValuesTogether, ids.size() - begin);
    std::array<float, kValuesTogether> values{}, sent;
    for (size_t i = 0; i < count; ++i) values[i] = residual[ids[begin + i]];
    const uint8_t its_scale = quantise(options.values, values.data(), code, sent.data());
    if (has_scales(options.values)) *scale++ = its_scale;
    for (size_t i = 0; i < count; ++i) residual[ids[begin + i]] -= sent[i];
    code += code_bytes(options.values);
  }
  return message;
}

Result<ChosenNumbers> decode_chunks(std::span<const std::byte> message, int64_t length) {
  CHECK(length >= 0 && length <= kChunkedLengthMax, "a tensor of {} elements", length);
  const ChunkHeader header = TRY(checked_chunk_header(message, length));
  const auto kind = static_cast<Values>(header.values);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(message.data());
  ChosenNumbers out{.length = length, .ids = {}, .values = {}};
  out.ids = TRY(decoded_ids(bytes + sizeof header, length, header.per_chunk));
  const ChunkMessage places(out.ids.size(), kind);
  const uint8_t *scale = bytes + places.scales, *code = bytes + places.codes;
  const size_t groups = (out.ids.size() + kValuesTogether - 1) / kValuesTogether;
  out.values.resize(groups * kValuesTogether);
  for (size_t g = 0; g < groups; ++g, code += code_bytes(kind))
    dequantise(kind, code, has_scales(kind) ? scale[g] : 0,
               out.values.data() + g * kValuesTogether);
  out.values.resize(out.ids.size());
  if (!std::all_of(out.values.begin(), out.values.end(), [](float x) { return std::isfinite(x); }))
    return refused_chunks("has a number that is not finite");
  return out;
}

Blocks blocks_around(const ChosenNumbers& chosen) {
  constexpr auto kWide = static_cast<uint32_t>(kBlock);
  Blocks out{.length = chosen.length, .ids = {}, .values = {}};
  for (size_t i = 0; i < chosen.ids.size(); ++i) {
    const uint32_t block = chosen.ids[i] / kWide;
    if (out.ids.empty() || out.ids.back() != block) {
      out.ids.push_back(block);
      out.values.resize(out.values.size() + kWide);
    }
    out.values[out.values.size() - kWide + chosen.ids[i] % kWide] = chosen.values[i];
  }
  return out;
}

std::vector<float> mean_over_senders(std::span<const ChosenNumbers> updates,
                                     std::span<const float> factors) {
  CHECK(!updates.empty() && factors.size() == updates.size(), "{} factors of {} updates",
        factors.size(), updates.size());
  std::vector<float> mean(static_cast<size_t>(updates[0].length));
  std::vector<uint16_t> senders(mean.size());
  for (size_t u = 0; u < updates.size(); ++u) {
    CHECK(updates[u].length == updates[0].length, "updates of {} and {} elements",
          updates[u].length, updates[0].length);
    for (size_t i = 0; i < updates[u].ids.size(); ++i) {
      mean[updates[u].ids[i]] += factors[u] * updates[u].values[i];
      ++senders[updates[u].ids[i]];
    }
  }
  for (size_t i = 0; i < mean.size(); ++i)
    if (senders[i] > 1) mean[i] /= static_cast<float>(senders[i]);
  return mean;
}

}  // namespace tombolo::compress
