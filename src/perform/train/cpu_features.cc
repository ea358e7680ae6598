#include "perform/train/cpu_features.h"

#include "base/file.h"

namespace tombolo::train {

CpuFeatures cpu_features(std::string_view cpuinfo) {
  const size_t flags = cpuinfo.find("\nflags");
  if (flags == std::string_view::npos) return {};
  std::string line{cpuinfo.substr(flags + 1, cpuinfo.find('\n', flags + 1) - flags - 1)};
  line += ' ';
  const auto has = [&](const char* word) { return line.find(word) != std::string::npos; };
  return {.bf16_products = has(" avx512_bf16 ") || has(" amx_bf16 ")};
}

CpuFeatures cpu_features() {
  const Result<std::string> text = read_file("/proc/cpuinfo");
  return text ? cpu_features(*text) : CpuFeatures{};
}

}  // namespace tombolo::train
