// What a front or a worker may have sent: any bytes are lines that are messages, which read back as
// they are written, or are refused. An engine takes any request that it admits to its end.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "perform/generate/front_message.h"
#include "support/toy_shard.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tombolo;
  using namespace tombolo::generate;
  ManualClock clock;
  const ToyShard shard(clock, SimDuration{1});
  Engine engine(shard, {.kv_bytes = 4096, .requests_max = 4}, clock);
  Lines lines;
  if (!lines.add({reinterpret_cast<const char*>(data), size})) return 0;
  while (const auto line = lines.next()) {
    if (const auto message = parse_worker(*line)) {
      const auto again = parse_worker(to_line(*message));
      CHECK(again && *again == *message, "another message: {}", *line);
    }
    const auto message = parse_front(*line);
    if (!message) continue;
    const auto again = parse_front(to_line(*message));
    CHECK(again && *again == *message, "another message: {}", *line);
    if (message->kind == FrontWord::kCancel) {
      engine.cancel(message->request.id);
    } else if (!engine.admit(message->request)) {
      engine.do_layer([](const EngineEvent&) {});
    }
  }
  engine.work_until(kNever, [](const EngineEvent&) {});
  CHECK(engine.kv_bytes_used() == 0, "{} bytes are left", engine.kv_bytes_used());
  return 0;
}
