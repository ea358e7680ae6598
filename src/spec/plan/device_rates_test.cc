#include "spec/plan/device_rates.h"

#include <gtest/gtest.h>

namespace tombolo::plan {
namespace {

// What a worker prints is what its parent reads.
TEST(DeviceRates, AreReadBack) {
  const DeviceRates rates{.threads = 2,
                          .memory = 8_GiB,
                          .stream = 10_GBps,
                          .products = {{.rows = 1, .columns = 2, .depth = 3, .rate = 90_GFLOPS}},
                          .layers = {{.model = *model::preset("byte-3m"),
                                      .micro_batch = 4,
                                      .whole = 50_ms,
                                      .attention = 10_ms}}};
  const auto again = read_fields<DeviceRates>(write_fields(rates), "again");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(*again, rates);
  DeviceRates wrong = rates;
  wrong.layers[0].attention = 60_ms;
  EXPECT_FALSE(read_fields<DeviceRates>(write_fields(wrong), "wrong"));
}

}  // namespace
}  // namespace tombolo::plan
