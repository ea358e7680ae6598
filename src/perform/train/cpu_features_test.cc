#include "perform/train/cpu_features.h"

#include <gtest/gtest.h>

namespace tombolo::train {
namespace {

bool products(std::string_view cpuinfo) { return cpu_features(cpuinfo).bf16_products; }

TEST(CpuFeatures, AreWordsOfTheFlags) {
  EXPECT_TRUE(products("processor\t: 0\nflags\t\t: fpu avx512_bf16 clzero\nbugs\t:\n"));
  EXPECT_TRUE(products("processor\t: 0\nflags\t\t: fpu amx_bf16\n"));
  EXPECT_FALSE(products("processor\t: 0\nflags\t\t: fpu avx512_bf16x avx512f\nx: amx_bf16 \n"));
  EXPECT_FALSE(products(""));
}

}  // namespace
}  // namespace tombolo::train
