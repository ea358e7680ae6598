// What the processor of this machine computes by itself.
#pragma once

#include <string>
#include <string_view>

namespace tombolo::train {

// Of the text of /proc/cpuinfo: AVX-512's or AMX's products of bfloat16. Without either LibTorch
// converts every number to float32 and back, and is slower than in float32.
bool has_bf16_products(std::string_view cpuinfo);

// Of this machine's.
bool has_bf16_products();

}  // namespace tombolo::train
