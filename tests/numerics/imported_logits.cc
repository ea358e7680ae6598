// What a model with weights of others answers, for tests/end_to_end/weights_test.py:
//
//   imported_logits FOLDER SEQUENCE STAGES TOKENS OUT
//
// TOKENS: uint16, whole samples. OUT: logits as float, row-major. The stages are those of a
// pipeline, one after the other in this process.
#include <cstdio>
#include <cstdlib>

#include "base/check.h"
#include "base/file.h"
#include "perform/train/stage_module.h"
#include "perform/weights/weight_folder.h"

namespace tombolo {
namespace {

Result<at::Tensor> answer(const std::string& folder_name, int64_t sequence, int64_t stages,
                          const std::string& tokens_file) {
  const weights::WeightFolder folder = TRY(weights::WeightFolder::open(folder_name));
  model::Model model = folder.config().model;
  model.sequence = sequence;
  TRY(folder.check(model));
  const std::string tokens = TRY(read_file(tokens_file));
  const auto samples = static_cast<int64_t>(tokens.size() / 2) / sequence;
  at::Tensor x = at::empty({samples, sequence}, at::kLong);
  for (int64_t i = 0; i < samples * sequence; ++i) {
    const auto byte = [&](int64_t at) { return static_cast<unsigned char>(tokens[2 * i + at]); };
    x.data_ptr<int64_t>()[i] = byte(0) | byte(1) << 8;
  }
  const at::NoGradGuard no_gradients;
  for (int64_t stage = 0; stage < stages; ++stage) {
    auto module = TRY(
        train::StageModule::create(model, model::stage_slice(model, stages, stage), std::nullopt));
    for (train::Parameter& parameter : module.parameters()) {
      at::Tensor& value = parameter.value;
      TRY(folder.read(parameter.name, value.sizes().vec(),
                      {value.data_ptr<float>(), static_cast<size_t>(value.numel())}));
    }
    x = module.forward(x);
  }
  return x.contiguous();
}

}  // namespace
}  // namespace tombolo

int main(int argc, char** argv) {
  CHECK(argc == 6, "imported_logits FOLDER SEQUENCE STAGES TOKENS OUT");
  const auto logits = tombolo::answer(argv[1], std::atoll(argv[2]), std::atoll(argv[3]), argv[4]);
  if (!logits) {
    fmt::print(stderr, "{}\n", logits.error().text());
    return logits.error().exit_code();
  }
  const auto* bytes = static_cast<const char*>(logits->data_ptr());
  const auto written = tombolo::write_file(argv[5], {bytes, logits->nbytes()});
  return written ? 0 : 1;
}
