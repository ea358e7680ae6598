#include "perform/train/measure_rates.h"

#include <gtest/gtest.h>

#include "perform/train/cpu_features.h"

namespace tombolo::train {
namespace {

// By a clock that moves one millisecond whenever it is looked at, every look lasts one.
TEST(MeasureRates, AreWorkOverTime) {
  double ms = 0;
  const auto rates = measure_rates(
      {.budget = 1_us, .hidden = {32, 64}, .sequence = 16, .rows = 32, .stream_array = 1_MB},
      [&] { return Seconds{1e-3 * ms++}; });
  ASSERT_TRUE(rates) << rates.error().text();
  const size_t precisions = cpu_features().bf16_products ? 2 : 1;
  ASSERT_EQ(rates->products.size(), 3 * precisions);
  const plan::MeasuredProduct& first = rates->products.front();
  EXPECT_EQ(first.precision, plan::Precision::kFp32);
  EXPECT_NEAR(first.rate.value, 2.0 * 32 * 88 * 32 / 1e-3, 1);  // [32, 32] x [32, 88]
  EXPECT_NEAR(rates->products[2].rate.value, 2.0 * 128 * 128 * 128 / 1e-3, 10);
  EXPECT_GE(rates->stream.value, 3 * 1e6 / 1e-3 * 0.999);
  ASSERT_EQ(rates->layers.size(), 2u);
  EXPECT_EQ(rates->layers[1].model.hidden, 64);
  EXPECT_EQ(rates->layers[1].micro_batch, 2);
  EXPECT_NEAR(rates->layers[1].whole.value, 1e-3, 1e-9);
  EXPECT_NEAR(rates->layers[1].attention.value, 1e-3, 1e-9);
  EXPECT_GT(rates->memory, 100_MB);
}

}  // namespace
}  // namespace tombolo::train
