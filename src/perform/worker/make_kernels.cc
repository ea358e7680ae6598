#include "perform/worker/make_kernels.h"

#include <cstdlib>
#include <string_view>

#include "perform/kernels/emulated_kernels.h"
#ifdef TOMBOLO_TORCH
#include "perform/train/blas_check.h"
#include "perform/train/torch_kernels.h"
#endif

namespace tombolo::worker {

#ifdef TOMBOLO_TORCH
namespace {

// The processor's features, or those of the processor that it is told to pass for.
train::CpuFeatures cpu_in_use() {
  train::CpuFeatures cpu = train::cpu_features();
  const char* slow = std::getenv(train::kSlowBf16Variable);
  cpu.bf16_products = cpu.bf16_products || (slow && std::string_view(slow) == "1");
  return cpu;
}

}  // namespace
#endif

Result<std::unique_ptr<kernels::Kernels>> make_kernels(const plan::Plan& plan, int32_t rank,
                                                       Clock& clock) {
  const cluster::Device& device = plan.device_of(rank);
  switch (device.kind) {
    case cluster::DeviceKind::kEmulated:
      return std::make_unique<kernels::EmulatedKernels>(plan, rank, clock);
    case cluster::DeviceKind::kCpu:
#ifdef TOMBOLO_TORCH
      return train::make_torch_kernels(plan, rank, cpu_in_use());
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

Value::Table kernel_facts() {
#ifdef TOMBOLO_TORCH
  const Status usable = train::check_blas();
  return {{"libtorch", train::libtorch_version()},
          {"blas", train::blas_library()},
          {"blas_problem", usable ? "" : usable.error().message}};
#else
  return {{"libtorch", ""}, {"blas", ""}, {"blas_problem", ""}};
#endif
}

}  // namespace tombolo::worker
