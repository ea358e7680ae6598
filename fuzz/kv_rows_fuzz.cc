// Keys and values of prompts, from whom nothing is believed: any bytes are rows, which are encoded to the
// same bytes, or are refused; an engine that waits for prompts takes what fits, and ends.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "perform/generate/kv_rows.h"
#include "support/toy_shard.h"

// Messages one after the other: two bytes of length, then as many bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tombolo;
  using namespace tombolo::generate;
  ManualClock clock;
  const ToyShard shard(clock, SimDuration{1});
  Engine engine(shard, {.kv_bytes = 4096, .requests_max = 4}, clock);
  for (int64_t id = 1; id <= 2; ++id) {
    CHECK(!engine.admit({.id = id, .tokens = {3, 4}, .tokens_max = 3, .share = Share::kDecode}),
          "refused");
  }
  KvIntake intake(engine);
  while (size >= 2) {
    const size_t length = std::min<size_t>(data[0] + 256U * data[1], size - 2);
    const std::span<const std::byte> message(reinterpret_cast<const std::byte*>(data + 2), length);
    if (const auto rows = decode_kv_rows(message)) {
      CHECK(std::ranges::equal(encode(*rows), message), "other bytes");
    }
    static_cast<void>(intake.take(message));
    data += 2 + length;
    size -= 2 + length;
  }
  engine.work_until(kNever, [](const EngineEvent&) {});
  engine.cancel(1);
  engine.cancel(2);
  CHECK(engine.kv_bytes_used() == 0, "{} bytes are left", engine.kv_bytes_used());
  return 0;
}
