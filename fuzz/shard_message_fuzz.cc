// What ranks say to each other of a prompt's layers, from whom nothing is believed: any bytes are a
// message, which is encoded to the same bytes, or are refused; a rank with later layers and one with the
// first ones take what fits, and keep within their memory.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "perform/generate/engine.h"
#include "perform/generate/later_layers.h"
#include "support/toy_shard.h"

// Messages one after the other: two bytes of length, then as many bytes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tombolo;
  using namespace tombolo::generate;
  constexpr int64_t kBytes = 512;
  ManualClock clock;
  const model::Model model = toy_model();
  const ToyShard first(clock, SimDuration{1}, model, model::stage_slice(model, 2, 0));
  const ToyShard second(clock, SimDuration{1}, model, model::stage_slice(model, 2, 1));
  Engine engine(first, {.kv_bytes = kBytes, .requests_max = 4}, clock);
  CHECK(!engine.admit({.id = 1, .tokens = {3, 4}, .tokens_max = 3}), "refused");
  engine.work_until(kNever, [](const EngineEvent&) {});
  LaterLayers later(second, kBytes, clock);
  const auto nobody = [](const ShardMessage&) {};
  const auto silent = [](const EngineEvent&) {};
  while (size >= 2) {
    const size_t length = std::min<size_t>(data[0] + 256U * data[1], size - 2);
    const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data + 2), length);
    static_cast<void>(later.take(bytes, nobody));
    if (const auto message = decode_shard_message(bytes)) {
      CHECK(std::ranges::equal(encode(*message), bytes), "other bytes");
      static_cast<void>(engine.arrive(*message, silent));
    }
    CHECK(later.kv_bytes_used() <= kBytes, "{} bytes", later.kv_bytes_used());
    while (later.work_once(kNever, nobody)) {
    }
    for (const HandedOver& prompt : later.take_handed_over()) {
      CHECK(prompt.cache, "nothing is handed over");
      later.left(prompt.number, nobody);
    }
    engine.work_until(kNever, silent);
    data += 2 + length;
    size -= 2 + length;
  }
  engine.cancel(1);
  CHECK(engine.kv_bytes_used() == 0, "{} bytes are left", engine.kv_bytes_used());
  return 0;
}
