// What the processor of this machine computes natively.
#pragma once

#include <string>
#include <string_view>

namespace tombolo::train {

struct CpuFeatures {
  // bfloat16 products, by AVX-512 or AMX. Without either, oneDNN and LibTorch convert every number
  // to float32 and back, which gives the same results and is slower than float32.
  bool bf16_products = false;
};

// From the text of /proc/cpuinfo.
CpuFeatures cpu_features(std::string_view cpuinfo);

// Of this machine's.
CpuFeatures cpu_features();

// Set to 1, a worker trains in bf16 on any processor.
inline constexpr const char* kSlowBf16Variable = "TOMBOLO_SLOW_BF16";

}  // namespace tombolo::train
