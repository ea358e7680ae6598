// Hugging Face's config.json: any bytes give a model or a message. What was read passes the checks
// of [model], counts without overflow, and survives the way through a Plan's JSON.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "spec/model/config_json.h"

using namespace tombolo;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto section = model::parse_config_json(text, "config.json");
  if (!section) {
    CHECK(section.error().message.find("config.json") != std::string::npos, "{}",
          section.error().message);
    return 0;
  }
  if (section->model.sequence == 0) section->model.sequence = 1;  // [model].sequence would say
  const model::Model& m = section->model;
  const auto again = read_fields<model::Model>(write_fields(m), "plan.json");
  CHECK(again, "{}", again.error().text());
  CHECK(*again == m, "changed on the way");
  CHECK(model::parameters(m) > 0, "{} parameters", model::parameters(m));
  CHECK(model::forward_flops(m, {0, m.layers, true, true}, 1).value > 0, "no work");
  return 0;
}
