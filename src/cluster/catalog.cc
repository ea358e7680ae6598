// Datasheet figures. Memory is what is left of the nameplate GiB after a reserve for the CUDA
// context and the allocator, stated per entry. Efficiencies are the share of peak that large
// training kernels reach; they are starting points for the law `roofline`, and `tombolo profile`
// replaces them by measurement.
#include "cluster/cluster.h"

namespace tombolo::cluster {
namespace {

constexpr Bytes kFrameworkReserve = 2_GiB;

std::vector<Device> catalog() {
  const auto accelerator = [](const char* name, FlopsPerSecond peak, Bytes memory,
                              BytesPerSecond bandwidth, double efficiency) {
    return Device{
        name, DeviceKind::kAccelerator, peak, memory - kFrameworkReserve, bandwidth, efficiency,
        0.4};
  };
  return {
      // NVIDIA A100 datasheet (2021): 312 TFLOPS bf16, HBM2e 2039 GB/s (80 GB), 1555 GB/s (40 GB).
      accelerator("a100-80g", 312_TFLOPS, 80_GiB, 2039_GBps, 0.5),
      accelerator("a100-40g", 312_TFLOPS, 40_GiB, 1555_GBps, 0.5),
      // NVIDIA H100 SXM datasheet (2023): 989 TFLOPS bf16 dense, HBM3 3.35 TB/s.
      accelerator("h100-80g", 989_TFLOPS, 80_GiB, 3350_GBps, 0.45),
      // NVIDIA H200 datasheet (2024): 989 TFLOPS bf16 dense, 141 GB HBM3e at 4.8 TB/s.
      accelerator("h200", 989_TFLOPS, 141_GB, 4800_GBps, 0.45),
      // NVIDIA V100 SXM2 datasheet (2020): 125 TFLOPS fp16, HBM2 900 GB/s.
      accelerator("v100-32g", 125_TFLOPS, 32_GiB, 900_GBps, 0.45),
      // One core of an AMD EPYC with AVX-512 and OpenBLAS: 90 GFLOPS in fp32, of which a stage of
      // examples/two-datacenters reaches three quarters. A rough figure; train with a profile.
      Device{"cpu", DeviceKind::kCpu, 90_GFLOPS, 4_GiB, 10_GBps, 0.8, 0.5},
  };
}

constexpr std::string_view kEmulated = "emulated:";

}  // namespace

std::vector<std::string> catalog_names() {
  std::vector<std::string> names;
  for (const Device& device : catalog()) names.push_back(device.name);
  return names;
}

Result<Device> catalog_device(const std::string& name) {
  const bool emulated = name.starts_with(kEmulated);
  const std::string plain = emulated ? name.substr(kEmulated.size()) : name;
  for (Device& device : catalog()) {
    if (device.name != plain) continue;
    if (emulated) {
      device.name = name;
      device.kind = DeviceKind::kEmulated;
    }
    return std::move(device);
  }
  std::string hint = nearest_name(plain, catalog_names());
  if (hint.empty()) {
    for (const std::string& known : catalog_names()) hint += (hint.empty() ? "" : ", ") + known;
    hint = "one of " + hint;
  } else {
    hint = fmt::format("\"{}{}\"", emulated ? kEmulated : "", hint);
  }
  return unusable(fmt::format("there is no device \"{}\" in the catalog", plain),
                  hint + ", or an inline { name, peak, memory, memory_bandwidth }");
}

}  // namespace tombolo::cluster
