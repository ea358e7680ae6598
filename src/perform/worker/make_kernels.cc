#include "perform/worker/make_kernels.h"

#include "perform/runtime/emulated_kernels.h"
#ifdef TOMBOLO_TORCH
#include "perform/train/torch_kernels.h"
#endif

namespace tombolo::worker {

Result<std::unique_ptr<runtime::Kernels>> make_kernels(const plan::Plan& plan, int32_t rank,
                                                       Clock& clock) {
  const cluster::Device& device = plan.device_of(rank);
  switch (device.kind) {
    case cluster::DeviceKind::kEmulated:
      return std::make_unique<runtime::EmulatedKernels>(plan, rank, clock);
    case cluster::DeviceKind::kCpu:
#ifdef TOMBOLO_TORCH
      return train::make_torch_kernels(plan, rank);
#else
      return unusable("this worker was built without LibTorch, which computes on device = \"cpu\"",
                      "building it with: cmake --preset torch && cmake --build --preset torch");
#endif
    case cluster::DeviceKind::kAccelerator:
      break;
  }
  return unusable(fmt::format("\"{}\" can be predicted but not run here", device.name),
                  fmt::format("device = \"cpu\" or \"emulated:{}\"", device.name));
}

}  // namespace tombolo::worker
