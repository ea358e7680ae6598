#include "predict/cost/layer_time.h"

#include <gtest/gtest.h>

namespace tombolo::cost {
namespace {

// A device and fabrics on which every figure can be worked out by hand: 100 TFLOPS, 1 TB/s,
// 100 GB/s inside a domain of 4 and 10 GB/s between domains, all of it reached at once.
Constants plain() {
  Constants c;
  c.device = {.matmul_efficiency = 1,
              .fp8_efficiency = 1,
              .half_rows = 0,
              .half_columns = 0,
              .half_depth = 0,
              .flash_efficiency = 0.5,
              .flash_half_sequence = 0,
              .flash_half_head = 0,
              .scores_efficiency = 0.25,
              .unaligned_head = 1,
              .unaligned_product = 2,
              .memory_efficiency = 1,
              .kernel = 0_s};
  for (FabricConstants* fabric : {&c.scale_up, &c.scale_out}) {
    *fabric = {.efficiency = 1, .single_efficiency = 0.5, .startup = 1_us, .latency = 0_s};
  }
  c.stack.layer_passes = c.stack.mlp_passes = c.stack.fp8_passes = 0;
  c.stack.logit_bytes = 0;
  return c;
}

cluster::Datacenter plain_machines() {
  cluster::Datacenter d;
  d.device = {.name = "plain",
              .peak = 100_TFLOPS,
              .peak_fp8 = 200_TFLOPS,
              .memory = 80_GB,
              .memory_bandwidth = 1000_GBps};
  d.nodes = 64;
  d.devices_per_node = 4;
  d.scale_up = {.domain = 4, .bandwidth = 100_GBps};
  d.scale_out = {.bandwidth = 10_GBps};
  return d;
}

// 24 h^2 tokens of products, h = 1024: QKV 3 h^2, projection h^2, MLP 8 h^2.
model::Model gpt() {
  model::Model m;
  m.layers = 2;
  m.hidden = 1024;
  m.heads = m.kv_heads = 16;
  m.ffn = 4096;
  m.vocabulary = 2048;
  m.sequence = 1024;
  m.activation = model::Activation::kGelu;
  return m;
}

class Layer : public ::testing::Test {
 protected:
  LayerTime layer(const Configuration& c, bool experts = false, bool fp8 = false) {
    return pricer(fp8).layer(c, lay_out(c, 4), experts);
  }
  LayerPricer pricer(bool fp8 = false) {
    return LayerPricer(model_, datacenter_, constants_, 2, fp8);
  }

  model::Model model_ = gpt();
  cluster::Datacenter datacenter_ = plain_machines();
  Constants constants_ = plain();
};

// Products: 24 x 1024^2 x 1024 tokens = 25.77 GFLOP, 257.7 us at 100 TFLOPS. Fused attention:
// 4 x 1024^2 x 1024 = 4.295 GFLOP, half of them computed, at half the peak: 42.95 us.
TEST_F(Layer, AddsProductsAndAttention) {
  const LayerTime time = layer({});
  EXPECT_NEAR(time.forward.compute, 257.698e-6 + 42.950e-6, 1e-9);
  EXPECT_NEAR(time.backward.compute, 2 * 257.698e-6 + 2.5 * 42.950e-6, 1e-9);
  EXPECT_EQ(time.forward.tensor, 0);
}

// The same attention unfused: all of it at a quarter of peak, 171.8 us, and 16 heads x 1024^2
// scores x 12 bytes at 1 TB/s, 201.3 us.
TEST_F(Layer, MovesScoresThroughMemoryWithoutFusion) {
  constants_.stack.attention = Attention::kUnfused;
  const double core = 171.799e-6 + 201.327e-6;
  EXPECT_NEAR(layer({}).forward.attention, core, 1e-9);
  Configuration selective;
  selective.recompute = model::Recompute::kSelective;
  EXPECT_NEAR(layer(selective).backward.compute, 2 * 257.698e-6 + 3 * core, 5e-9);
}

TEST_F(Layer, FullRecomputationAddsAForwardPass) {
  const Configuration once{{.tensor = 2}};
  Configuration again = once;
  again.recompute = model::Recompute::kFull;
  EXPECT_DOUBLE_EQ(layer(again).backward.compute,
                   layer(once).backward.compute + layer(once).forward.compute);
  EXPECT_DOUBLE_EQ(layer(again).backward.tensor, 2 * layer(once).backward.tensor);
}

// A product of 1024 x 96 x 1024 is not a multiple of 64 wide: twice as slow. heads = 1 of 96.
TEST_F(Layer, SlowsWidthsThatTilesDoNotFill) {
  model_.ffn = 4096 + 32;
  const double aligned = 2.0 * 1024 * 1024 * 1024 * (3 + 1) / 100e12;
  const double unaligned = 2 * 2.0 * 1024 * 1024 * (2 * 4128) / 100e12;
  EXPECT_NEAR(layer({}).forward.compute - layer({}).forward.attention, aligned + unaligned, 1e-10);
}

TEST_F(Layer, EightBitsHalveTheProductsAndNotAttention) {
  const LayerTime time = layer({}, false, true);
  EXPECT_NEAR(time.forward.compute, 257.698e-6 / 2 + 42.950e-6, 1e-9);
  datacenter_.device.peak_fp8.reset();
  EXPECT_NEAR(layer({}, false, true).forward.compute, 257.698e-6 + 42.950e-6, 1e-9);
}

// Two sums of 1024 x 1024 x 2 bytes among 4: each 2 x 3/4 x 2.097 MB / 100 GB/s = 31.46 us, and a
// start-up of 1 us for each half.
TEST_F(Layer, TensorParallelismSumsTwice) {
  EXPECT_NEAR(layer({{.tensor = 4}}).forward.tensor, 2 * (31.457e-6 + 2e-6), 1e-9);
}

// Half of the keys and values come from the other rank: 2 x 1024 x 1024 x 2 bytes / 2.
TEST_F(Layer, ContextParallelismPassesKeysAndValues) {
  const LayerTime time = layer({{.context = 2}});
  EXPECT_NEAR(time.forward.context, 1e-6 + 2.0 * 1024 * 1024 * 2 / 2 / 100e9, 1e-10);
  EXPECT_NEAR(time.forward.attention, 42.950e-6 / 2, 1e-9);
}

// 8 experts as wide as the MLP, 2 per token, on 4 ranks: each device computes two experts on 1024
// rows, twice the dense MLP. Tokens travel twice: 2 x 1024 x 1024 x 2 bytes, 3/4 of them away.
TEST_F(Layer, ExpertsComputeWhatTokensVisitAndExchangeThem) {
  model_.experts = model::Experts{.count = 8, .per_token = 2, .ffn = 4096};
  constants_.stack.expert_passes = 0;
  const LayerTime time = layer({{.data = 4, .expert = 4}}, true);
  const double router = 2.0 * 1024 * 8 * 1024 / 100e12;
  const double router_bytes = 2.0 * (1024 * 8 + 8 * 1024 + 1024 * 1024) / 1e12;
  const double mlp = 2 * 16.0 * 1024 * 1024 * 1024 / 100e12;
  const double attention = 8.0 * 1024 * 1024 * 1024 / 100e12 + 42.950e-6;
  EXPECT_NEAR(time.forward.compute, attention + mlp + std::max(router, router_bytes), 1e-9);
  EXPECT_NEAR(time.forward.expert, 2 * (1e-6 + 4.194304e6 * 0.75 / 100e9), 1e-10);
}

TEST_F(Layer, SmallKernelsTakeTheShortestTime) {
  constants_.device.kernel = 1_s;
  EXPECT_NEAR(layer({}).forward.compute, 4 + 1, 1e-9);  // four products and fused attention
}

// In a domain 100 GB/s; across domains through the ports of all members, 2 x 10 GB/s.
TEST_F(Layer, CollectivesLeaveDomainsThroughAllTheirPorts) {
  const LayerPricer p = pricer();
  EXPECT_EQ(p.all_gather(1e9, {1, 1}), 0);
  EXPECT_NEAR(p.all_gather(1e9, {4, 1}), 1e-6 + 0.75e9 / 100e9, 1e-12);
  EXPECT_NEAR(p.all_gather(1e9, {2, 2}), 1e-6 + 0.75e9 / 20e9, 1e-12);
  EXPECT_NEAR(p.all_gather(1e9, {1, 4}), 1e-6 + 0.75e9 / 10e9, 1e-12);
  EXPECT_NEAR(p.all_to_all(1e9, {2, 2}), 1e-6 + 0.5e9 / 10e9, 1e-12);
  EXPECT_NEAR(p.transfer(1e9, {4, 1}), 1e-6 + 1e9 / 50e9, 1e-12);
  EXPECT_NEAR(p.transfer(1e9, {1, 2}), 1e-6 + 1e9 / 5e9, 1e-12);
}

TEST(LayerTime, MachinesComputeAndAreJoined) {
  const model::Model m = *model::preset("gpt-22b");
  cluster::Datacenter site = plain_machines();
  site.name = "here";
  site.scale_out.bandwidth = {};
  EXPECT_DEATH(LayerPricer(m, site, plain(), 2, false), "here is joined by .* and 0 B/s");
  site.device.memory_bandwidth = {};
  EXPECT_DEATH(LayerPricer(m, site, plain(), 2, false), "plain does .* FLOPS and reads 0 B/s");
}

}  // namespace
}  // namespace tombolo::cost
