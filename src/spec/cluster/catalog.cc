// Datasheet figures. Memory is what is left of the nameplate GiB after a reserve for the CUDA
// context and the allocator, stated per entry. Efficiencies are the share of peak that large
// training kernels reach; they are starting points for the law `roofline`, and `tombolo profile`
// replaces them by measurement.
#include <optional>
#include <string_view>

#include "spec/cluster/cluster.h"

namespace tombolo::cluster {
namespace {

constexpr Bytes kFrameworkReserve = 2_GiB;

std::vector<Device> make_catalog() {
  const auto accelerator = [](const char* name, FlopsPerSecond peak,
                              std::optional<FlopsPerSecond> peak_fp8, Bytes memory,
                              BytesPerSecond bandwidth, double efficiency) {
    return Device{.name = name,
                  .kind = DeviceKind::kAccelerator,
                  .peak = peak,
                  .peak_fp8 = peak_fp8,
                  .memory = memory - kFrameworkReserve,
                  .memory_bandwidth = bandwidth,
                  .efficiency = efficiency,
                  .attention_efficiency = 0.4};
  };
  constexpr auto kNoFp8 = std::nullopt;
  return {
      // NVIDIA A100 datasheet (2021): 312 TFLOPS bf16, HBM2e 2039 GB/s (80 GB), 1555 GB/s (40 GB).
      accelerator("a100-80g", 312_TFLOPS, kNoFp8, 80_GiB, 2039_GBps, 0.5),
      accelerator("a100-40g", 312_TFLOPS, kNoFp8, 40_GiB, 1555_GBps, 0.5),
      // NVIDIA A800 datasheet (2022): an A100 80 GB whose NVLink has 400 GB/s, both ways together.
      accelerator("a800-80g", 312_TFLOPS, kNoFp8, 80_GiB, 2039_GBps, 0.5),
      // NVIDIA A40 datasheet (2021): 149.7 TFLOPS bf16 dense, 48 GB GDDR6 at 696 GB/s.
      accelerator("a40-48g", 149.7_TFLOPS, kNoFp8, 48_GiB, 696_GBps, 0.5),
      // NVIDIA H100 SXM datasheet (2023): 989 TFLOPS bf16 and 1979 fp8 dense, HBM3 3.35 TB/s.
      accelerator("h100-80g", 989_TFLOPS, 1979_TFLOPS, 80_GiB, 3350_GBps, 0.45),
      // As torchtitan's benchmarks describe theirs (2024): 96 GB HBM2e at 2.4 TB/s, and 500 W
      // instead of 700, which the peak does not show.
      accelerator("h100-96g", 989_TFLOPS, 1979_TFLOPS, 96_GiB, 2400_GBps, 0.4),
      // NVIDIA H200 datasheet (2024): 989 TFLOPS bf16 dense, 141 GB HBM3e at 4.8 TB/s.
      accelerator("h200", 989_TFLOPS, 1979_TFLOPS, 141_GB, 4800_GBps, 0.45),
      // NVIDIA H20, as its vendors print it (2024): 148 TFLOPS bf16, 296 fp8, 96 GB HBM3 at 4 TB/s.
      accelerator("h20", 148_TFLOPS, 296_TFLOPS, 96_GiB, 4000_GBps, 0.5),
      // NVIDIA L40S datasheet (2023): 362 TFLOPS bf16 and 733 fp8 dense, 48 GB GDDR6 at 864 GB/s.
      accelerator("l40s", 362_TFLOPS, 733_TFLOPS, 48_GiB, 864_GBps, 0.45),
      // NVIDIA Blackwell architecture brief (2024), HGX B200: 2250 TFLOPS bf16 and 4500 fp8 dense,
      // HBM3e 8 TB/s. 192 GB stand on the chip; systems call the same 179 GiB 180 GB.
      accelerator("b200", 2250_TFLOPS, 4500_TFLOPS, 192_GB, 8000_GBps, 0.45),
      // NVIDIA GB200 NVL72 datasheet (2024), half of a superchip: 2500 TFLOPS bf16 and 5000 fp8
      // dense, 186 GB HBM3e at 8 TB/s.
      accelerator("gb200", 2500_TFLOPS, 5000_TFLOPS, 186_GiB, 8000_GBps, 0.45),
      // NVIDIA GB300 NVL72 datasheet (2025): bf16 and fp8 as GB200, 288 GB HBM3e at 8 TB/s.
      accelerator("gb300", 2500_TFLOPS, 5000_TFLOPS, 288_GB, 8000_GBps, 0.45),
      // NVIDIA V100 SXM2 datasheet (2020): 125 TFLOPS fp16, HBM2 900 GB/s.
      accelerator("v100-32g", 125_TFLOPS, kNoFp8, 32_GiB, 900_GBps, 0.45),
      accelerator("v100-16g", 125_TFLOPS, kNoFp8, 16_GiB, 900_GBps, 0.45),
      // GeForce cards: products of 16 bits that add up in 32, dense, which they do at half of the rate of
      // sums in 16 bits. NVIDIA Turing architecture whitepaper (2018), RTX 2080 Ti Founders Edition: 56.9
      // TFLOPS fp16, 11 GB GDDR6 at 616 GB/s.
      accelerator("rtx-2080-ti", 56.9_TFLOPS, kNoFp8, 11_GiB, 616_GBps, 0.5),
      // NVIDIA Ampere GA102 architecture whitepaper (2020): 71 TFLOPS bf16, 24 GB GDDR6X at 936 GB/s.
      accelerator("rtx-3090", 71_TFLOPS, kNoFp8, 24_GiB, 936_GBps, 0.5),
      // NVIDIA Ada architecture whitepaper (2022): 165.2 TFLOPS bf16 and 330.3 fp8, 24 GB GDDR6X at 1008 GB/s.
      accelerator("rtx-4090", 165.2_TFLOPS, 330.3_TFLOPS, 24_GiB, 1008_GBps, 0.5),
      // NVIDIA RTX Blackwell architecture whitepaper (2025): 209.5 TFLOPS bf16 and 419 fp8, 32 GB GDDR7 at 1792 GB/s.
      accelerator("rtx-5090", 209.5_TFLOPS, 419_TFLOPS, 32_GiB, 1792_GBps, 0.5),
      // One core of an AMD EPYC with AVX-512 and OpenBLAS: 90 GFLOPS in fp32, of which a stage of
      // examples/two-datacenters reaches three quarters. A rough figure; train with a profile.
      Device{.name = "cpu",
             .kind = DeviceKind::kCpu,
             .peak = 90_GFLOPS,
             .memory = 4_GiB,
             .memory_bandwidth = 10_GBps,
             .efficiency = 0.8,
             .attention_efficiency = 0.5},
  };
}

const std::vector<Device>& catalog() {
  static const std::vector<Device> devices = make_catalog();
  return devices;
}

// People write A100, a100_80gb, H100-80GB, NVIDIA B200, GeForce RTX 4090: lower case, one kind of hyphen,
// no maker, and the size as in "80g".
std::string normal(std::string_view written) {
  std::string name;
  for (const char c : written) {
    const bool separates = c == '_' || c == ' ' || c == '-';
    name += separates ? '-' : static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  for (const std::string_view maker : {"nvidia-", "geforce-"}) {
    if (name.starts_with(maker)) name.erase(0, maker.size());
  }
  if (name == "rtx-2080ti") name = "rtx-2080-ti";
  if (name.ends_with("gb")) name.pop_back();
  return name;
}

// The name without its size, as in "a100" of "a100-80g".
std::string_view family(std::string_view name) {
  const size_t hyphen = name.rfind('-');
  if (hyphen == name.npos || hyphen + 1 == name.size() || name.back() != 'g') return name;
  const std::string_view size = name.substr(hyphen + 1, name.size() - hyphen - 2);
  const bool digits = !size.empty() && size.find_first_not_of("0123456789") == size.npos;
  return digits ? name.substr(0, hyphen) : name;
}

// Its entry: by name, or without a size the first of its family, which is the usual one. A size
// that the catalog does not tell apart is accepted where the family has one entry without size:
// "b200-180gb" is b200.
const Device* find(const std::vector<Device>& devices, const std::string& name) {
  for (const Device& device : devices) {
    if (device.name == name) return &device;
  }
  for (const Device& device : devices) {
    const bool one = name == family(device.name) || device.name == family(name);
    if (one) return &device;
  }
  return nullptr;
}

constexpr std::string_view kEmulated = "emulated:";

}  // namespace

std::vector<std::string> catalog_names() {
  std::vector<std::string> names;
  for (const Device& device : catalog()) names.push_back(device.name);
  return names;
}

bool multiplies_bf16(const Device& device) {
  std::string_view name = device.name;
  if (name.starts_with(kEmulated)) name.remove_prefix(kEmulated.size());
  return family(name) != "v100" && family(name) != "rtx-2080-ti";
}

Result<Device> catalog_device(const std::string& name) {
  const bool emulated = name.starts_with(kEmulated);
  const std::string plain = emulated ? name.substr(kEmulated.size()) : name;
  if (const Device* found = find(catalog(), normal(plain))) {
    Device device = *found;
    if (emulated) {
      device.name.insert(0, kEmulated);
      device.kind = DeviceKind::kEmulated;
    }
    return device;
  }
  std::string hint = nearest_name(normal(plain), catalog_names());
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
