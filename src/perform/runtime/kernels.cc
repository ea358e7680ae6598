#include "perform/runtime/kernels.h"

#include <algorithm>

namespace tombolo::runtime {

TensorSource source_of(std::span<const NamedTensor> tensors) {
  return [tensors](const std::string& name) -> Result<NamedTensor> {
    const auto found = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const NamedTensor& each) { return each.name == name; });
    if (found != tensors.end()) return *found;
    return unusable(fmt::format("the checkpoint lacks the tensor {}", name),
                    "a checkpoint of the same model, complete with every rank's part");
  };
}

}  // namespace tombolo::runtime
