#include "predict/cost/device_from_rates.h"

#include <gtest/gtest.h>

#include "predict/cost/price_plan.h"
#include "support/job_texts.h"

namespace tombolo::cost {
namespace {

constexpr double kTokens = 4 * 256;

// One layer of hidden 256, MLP 704, 8 heads, on 4 sequences of 256 tokens.
plan::MeasuredLayer layer(Seconds whole, Seconds attention) {
  model::Model m = *model::preset("byte-3m");
  m.layers = 1;
  m.kv_heads = m.heads;
  m.ffn = 704;
  m.sequence = 256;
  return {.model = m, .micro_batch = 4, .whole = whole, .attention = attention};
}

plan::DeviceRates rates(FlopsPerSecond peak, BytesPerSecond stream, plan::MeasuredLayer its) {
  return {.memory = 8_GiB,
          .stream = stream,
          .products = {{.rows = 1, .columns = 1, .depth = 1, .rate = 0.5 * peak},
                       {.rows = 2, .columns = 2, .depth = 2, .rate = peak},
                       {.precision = plan::Precision::kBf16,
                        .rows = 2,
                        .columns = 2,
                        .depth = 2,
                        .rate = 3 * peak}},
          .layers = {std::move(its)}};
}

// Products: 2 x 1024 tokens x (4 x 256^2 + 3 x 256 x 704) = 1.644 GFLOP, three times that with the
// backward pass. Attention: half of 4 x 4 x 256^2 x 256 = 0.134 GFLOP, 3.5 times with the backward
// pass of the fused kernel that the law counts. At 100 GFLOPS 49.3 ms and 4.7 ms.
TEST(DeviceFromRates, ByHand) {
  const double products = 3 * 2 * kTokens * (4 * 256 * 256 + 3 * 256 * 704) / 100e9;
  const double attention = 3.5 * 0.5 * 4 * 4 * 256 * 256 * 256 / 0.871 / 100e9;
  EXPECT_NEAR(products, 0.0493, 1e-4);
  EXPECT_NEAR(attention, 0.0054, 1e-4);
  const auto one =
      rates(100_GFLOPS, 10_GBps,
            layer(Seconds{products / 0.8 + attention / 0.25}, Seconds{attention / 0.25}));
  const cluster::Device device = device_from_rates(std::vector{one, one}, "cpu");
  EXPECT_EQ(device.kind, cluster::DeviceKind::kCpu);
  EXPECT_EQ(device.peak, 100_GFLOPS) << "of products in fp32, as the layers are";
  EXPECT_EQ(device.memory_bandwidth, 10_GBps);
  EXPECT_EQ(device.memory, 8_GiB);
  EXPECT_NEAR(device.efficiency, 0.8, 1e-9);
  EXPECT_NEAR(device.attention_efficiency, 0.25, 1e-9);
}

// What one gives to a layer, the other takes from it: the law with the device that was made from a
// stage's own layers predicts that stage.
TEST(DeviceFromRates, TheLawGivesBackWhatWasMeasured) {
  const plan::Job job = *plan::parse_job(test::kTwoCpus, "job.toml");
  const plan::Plan plan = *make_plan(job);
  const plan::Stage& stage = plan.stages[0];  // its embedding takes next to nothing
  const Seconds both = stage.cost.forward + stage.cost.backward;
  plan::MeasuredLayer its{.model = plan.model,
                          .micro_batch = plan.training.micro_batch,
                          .whole = both / real(stage.slice.layers),
                          .attention = 0.1 * both / real(stage.slice.layers)};
  const cluster::Device device =
      device_from_rates(std::vector{rates(120_GFLOPS, 10_GBps, its)}, "cpu");
  plan::Job again = job;
  for (cluster::Datacenter& datacenter : again.cluster.datacenters) datacenter.device = device;
  const plan::Plan predicted = *make_plan(again);
  const plan::StageCost& cost = predicted.stages[0].cost;
  EXPECT_NEAR((cost.forward + cost.backward) / both, 1, 0.02);
}

// The layer's products alone take 49.3 ms at 100 GFLOPS: this machine reaches more than its products
// showed, and its times are kept.
TEST(DeviceFromRates, ALayerFasterThanTheProductsRaisesThePeak) {
  const plan::MeasuredLayer quick = layer(30_ms, 20_ms);
  const cluster::Device device =
      device_from_rates(std::vector{rates(100_GFLOPS, 10_GBps, quick)}, "cpu");
  EXPECT_NEAR(device.peak / 100_GFLOPS, 4.93, 0.01) << "49.3 ms of products in 10 ms";
  EXPECT_EQ(device.efficiency, 1);
  const LayerEfficiency its = efficiency_of(quick, 100_GFLOPS, plan::Precision::kFp32);
  EXPECT_NEAR(device.peak / 100_GFLOPS * device.attention_efficiency / its.attention, 1, 1e-3);
}

TEST(DeviceFromRatesDeathTest, SomebodyMeasured) {
  EXPECT_DEATH(static_cast<void>(device_from_rates({}, "cpu")), "no rank measured cpu");
}

}  // namespace
}  // namespace tombolo::cost
