// What others say about their weights: an index of files, or a config.json, which becomes names and
// shapes, and is written again as the same model.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "perform/weights/weight_folder.h"

namespace {

using namespace tombolo::weights;

void read_config(std::string_view text) {
  const auto config = parse_config(text, "input");
  if (!config) return;
  // Names are as many as layers; a hundred of them show what a million would.
  if (config->model.layers > 100) return;
  int64_t theirs = 0;
  for (const TheirTensor& tensor : their_tensors(config->family, config->model)) {
    int64_t count = 1;
    for (const int64_t extent : tensor.shape) count *= extent;
    theirs += count;
  }
  CHECK(theirs == tombolo::model::parameters(config->model), "{} parameters", theirs);
  const auto again =
      parse_config(config_text(config->family, config->model, NumberType::kF32), "again");
  CHECK(again.has_value(), "{}", again.error().text());
  const auto same = check_same_model(config->model, *again, "again");
  CHECK(same.has_value() || same.error().text().find("sliding_window") != std::string::npos, "{}",
        same.error().text());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto index = parse_index(text, "input")) {
    for (const auto& [tensor, file] : *index) {
      CHECK(file.find('/') == std::string::npos && file != "..", "{}", file);
    }
  }
  read_config(text);
  return 0;
}
