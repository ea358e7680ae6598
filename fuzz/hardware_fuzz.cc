// Hardware files, which another machine may have measured: any bytes give stages and links or a
// message that names the file; what was read is written and read back equal.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "spec/plan/hardware.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tombolo::plan;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto hardware = parse_hardware(text, "input.json");
  if (!hardware) {
    CHECK(hardware.error().message.starts_with("input.json"), "{}", hardware.error().message);
    return 0;
  }
  const std::string json = to_json_text(*hardware);
  const auto back = parse_hardware(json, "again.json");
  CHECK(back, "{}", back.error().text());
  CHECK(*back == *hardware, "changed on the way through {}", json);
  CHECK(to_json_text(*back) == json, "written differently the second time: {}", json);
  for (const MeasuredStage& stage : hardware->stages) {
    const MeasuredStage* found = hardware->find(stage.slice, stage.device);
    CHECK(found && found->slice == stage.slice && found->device == stage.device, "not found");
  }
  return 0;
}
