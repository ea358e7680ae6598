#include "perform/train/cpu_features.h"

#include "base/file.h"

namespace tombolo::train {

bool has_bf16_products(std::string_view cpuinfo) {
  const size_t flags = cpuinfo.find("\nflags");
  if (flags == std::string_view::npos) return false;
  std::string line{cpuinfo.substr(flags + 1, cpuinfo.find('\n', flags + 1) - flags - 1)};
  line += ' ';
  return line.find(" avx512_bf16 ") != std::string::npos ||
         line.find(" amx_bf16 ") != std::string::npos;
}

bool has_bf16_products() {
  const Result<std::string> text = read_file("/proc/cpuinfo");
  return text && has_bf16_products(*text);
}

}  // namespace tombolo::train
