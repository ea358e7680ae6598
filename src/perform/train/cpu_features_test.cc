#include "perform/train/cpu_features.h"

#include <gtest/gtest.h>

namespace tombolo::train {
namespace {

TEST(CpuFeatures, AreWordsOfTheFlags) {
  EXPECT_TRUE(has_bf16_products("processor\t: 0\nflags\t\t: fpu avx512_bf16 clzero\nbugs\t:\n"));
  EXPECT_TRUE(has_bf16_products("processor\t: 0\nflags\t\t: fpu amx_bf16\n"));
  EXPECT_FALSE(
      has_bf16_products("processor\t: 0\nflags\t\t: fpu avx512_bf16x avx512f\nx: amx_bf16 \n"));
  EXPECT_FALSE(has_bf16_products(""));
}

}  // namespace
}  // namespace tombolo::train
