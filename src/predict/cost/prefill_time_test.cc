#include "predict/cost/prefill_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tombolo::cost {
namespace {

using ::testing::HasSubstr;

cluster::Datacenter datacenter_of(const char* device) {
  cluster::Datacenter datacenter{.name = "here", .device = *cluster::catalog_device(device)};
  datacenter.devices_per_node = 8;
  datacenter.nodes = 2;
  return datacenter;
}

PrefillTime llama(int64_t tokens, ShardHop hop = ShardHop::kScaleUp) {
  return *prefill_time(*model::preset("llama3-8b"), datacenter_of("a100-80g"), hop, tokens);
}

// Llama 3 8B does 2 x 6.98e9 operations a token in its layers, and 4 x 4096 x n / 2 more in
// attention; an A100 does 312 TFLOPS. What the law says must lie between 40 and 80 % of that for
// long prompts, and every layer takes the host's time at least.
TEST(PrefillTime, IsWhatTheArithmeticAllows) {
  for (const int64_t tokens : {1024, 2048, 4096, 8192}) {
    const double n = static_cast<double>(tokens);
    const double flops = n * 2 * 6.98e9 + 32 * 2 * n * n * 4096;
    const double share = flops / 312e12 / (32 * llama(tokens).layer.value);
    EXPECT_GT(share, 0.4) << tokens;
    EXPECT_LT(share, 0.8) << tokens;
  }
  EXPECT_EQ(llama(1).layer, 1.22_ms);
}

// Linear for the matrices, quadratic for attention: between twice and four times for twice as many.
TEST(PrefillTime, GrowsMoreThanLinearlyWithThePrompt) {
  const double ratio = llama(8192).layer / llama(4096).layer;
  EXPECT_GT(ratio, 2);
  EXPECT_LT(ratio, 4);
}

TEST(PrefillTime, OfADeeperPipelineIsLongerByItsTransfers) {
  const PrefillTime time = llama(512);
  EXPECT_NEAR((time.ttft(32, 8) - time.ttft(32, 1)).value, 7 * time.transfer.value, 1e-12);
  // 512 x 4096 numbers of 2 bytes through a network of 25 GBps rather than NVLink.
  EXPECT_GT(llama(512, ShardHop::kScaleOut).transfer, time.transfer);
  EXPECT_GT(llama(512, ShardHop::kScaleOut).transfer, Bytes{512 * 4096 * 2} / 25_GBps);
}

// What a table says between its rows is never less than the law, and at most 2 % more.
TEST(PrefillTime, RowsAreCloseEnoughForStraightLines) {
  const model::Model model = *model::preset("llama3-8b");
  const cluster::Datacenter here = datacenter_of("a100-80g");
  const std::vector<PrefillTime> rows = *prefill_times(model, here, ShardHop::kScaleUp);
  EXPECT_EQ(rows.front().tokens, 1);
  EXPECT_EQ(rows.back().tokens, model.sequence);
  for (size_t i = 1; i < rows.size(); ++i) {
    ASSERT_GT(rows[i].tokens, rows[i - 1].tokens);
    const int64_t middle = (rows[i].tokens + rows[i - 1].tokens) / 2;
    if (middle == rows[i - 1].tokens || 2 * middle != rows[i].tokens + rows[i - 1].tokens) continue;
    const Seconds line = (rows[i].layer + rows[i - 1].layer) / 2;
    const Seconds law = prefill_time(model, here, ShardHop::kScaleUp, middle)->layer;
    EXPECT_GE(line.value, law.value * (1 - 1e-9)) << middle;
    EXPECT_LE(line.value, law.value * 1.02) << middle;
  }
}

TEST(PrefillTime, OfACpuIsARoofline) {
  const model::Model model = *model::preset("gpt2");
  const PrefillTime time =
      *prefill_time(model, datacenter_of("cpu"), ShardHop::kScaleOut, model.sequence);
  EXPECT_GT(time.layer.value, 0);
  EXPECT_GT(time.ttft(12, 1).value, 12 * time.layer.value);
}

// The slower kind of layer counts for all.
TEST(PrefillTime, OfExpertsIsThatOfTheSlowerLayers) {
  const PrefillTime time = *prefill_time(*model::preset("mixtral-8x7b"), datacenter_of("h100-80g"),
                                         ShardHop::kScaleUp, 2048);
  EXPECT_GT(time.layer.value, 0);
}

TEST(PrefillTime, RefusesPromptsLongerThanTheModelTakes) {
  const auto none = prefill_time(*model::preset("llama3-8b"), datacenter_of("a100-80g"),
                                 ShardHop::kScaleUp, 1'000'000);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().text(), HasSubstr("a prompt of 1000000 tokens"));
}

// BubbleTea, section 5.1: 60 GB over a bus of 64 GBps.
TEST(PrefillTime, OfLoadingIsBytesOverTheBus) {
  EXPECT_DOUBLE_EQ(loading_time(60_GB, 64_GBps).value, 0.9375);
}

}  // namespace
}  // namespace tombolo::cost
