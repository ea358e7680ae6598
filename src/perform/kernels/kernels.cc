#include "perform/kernels/kernels.h"

#include <algorithm>

namespace tombolo::kernels {

TensorSource source_of(std::span<const NamedTensor> tensors) {
  return [tensors](const std::string& name) -> Result<NamedTensor> {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const NamedTensor& each) { return each.name == name; });
    if (found != tensors.end()) return *found;
    return unusable(fmt::format("the checkpoint lacks the tensor {}", name),
                    "a checkpoint of the same model, complete with every rank's part");
  };
}

std::vector<TensorView> views_of(std::span<const NamedTensor> tensors) {
  std::vector<TensorView> out;
  for (const NamedTensor& each : tensors)
    out.push_back({each.name, each.dtype, each.shape, each.bytes});
  return out;
}

int64_t bytes_of(std::span<const TensorView> tensors) {
  int64_t bytes = 0;
  for (const TensorView& each : tensors) bytes += static_cast<int64_t>(each.bytes.size());
  return bytes;
}

Result<std::vector<NamedTensor>> Kernels::save() const {
  std::vector<NamedTensor> out;
  std::vector<TensorView> tensors = TRY(state());
  for (TensorView& each : tensors) {
    out.push_back({std::move(each.name), std::move(each.dtype), std::move(each.shape),
                   Payload(each.bytes.begin(), each.bytes.end())});
  }
  return out;
}

}  // namespace tombolo::kernels
