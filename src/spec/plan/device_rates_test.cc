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
}

// On a busy machine a part of a layer can take longer than the layer did.
TEST(DeviceRates, ThatWereDisturbedSayWhatToDo) {
  const DeviceRates wrong{.memory = 8_GiB,
                          .stream = 10_GBps,
                          .products = {{.rows = 1, .columns = 2, .depth = 3, .rate = 90_GFLOPS}},
                          .layers = {{.model = *model::preset("byte-3m"),
                                      .micro_batch = 4,
                                      .whole = 50_ms,
                                      .attention = 60_ms}}};
  const auto refused = read_fields<DeviceRates>(write_fields(wrong), "rank 0");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("layers[0].attention"), std::string::npos);
  EXPECT_NE(refused.error().text().find("try the command again while the machine is idle"),
            std::string::npos)
      << refused.error().text();
}

}  // namespace
}  // namespace tombolo::plan
