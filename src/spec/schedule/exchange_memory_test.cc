#include "spec/schedule/exchange_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/plan/gradient_groups.h"
#include "spec/plan/job.h"
#include "spec/schedule/schedule.h"
#include "spec/schedule/sparse_exchange.h"

namespace tombolo::schedule {
namespace {

// Two replicas in each of two datacenters.
plan::Plan apart(int hidden, const std::string& exchange, const std::string& device = "h100-80g") {
  const auto plan = plan::parse_job(fmt::format(R"(
[model]
layers = 4
hidden = {0}
heads = 4
ffn = {0}
vocabulary = 64
sequence = 16
[training]
global_batch = 4
[parallelism]
pipeline = 1
data = 4
datacenter_per_replica = ["lab", "lab", "cloud", "cloud"]
[[cluster.datacenter]]
name = "lab"
device = "{2}"
devices_per_node = 2
[[cluster.datacenter]]
name = "cloud"
device = "{2}"
devices_per_node = 2
[[cluster.wan]]
between = ["lab", "cloud"]
one_way_latency = "10 ms"
node_pair_limit = "1 Gbps"
[exchange]
{1})",
                                                hidden, exchange, device),
                                    "job.toml")
                        .and_then(plan::lay_out);
  CHECK(plan, "{}", plan.error().text());
  return *plan;
}

// In float32, whatever gradients travel in.
Bytes one_each(const plan::Plan& plan) {
  return plan.stages[0].gradients * (4 / plan::gradient_bytes(plan));
}

// A law may say that gradients travel in two bytes each; what is kept has four all the same.
TEST(ExchangeMemory, IsOfParametersNotOfBytesOnTheWire) {
  plan::Plan plan = apart(256, "mode = \"local\"");
  const ExchangeMemory kept = exchange_memory(plan, 0, 0);
  plan.stages[0].gradients = plan.stages[0].gradients / 2;
  EXPECT_NEAR(exchange_memory(plan, 0, 0).anchor.value, kept.anchor.value, 16);
}

TEST(ExchangeMemory, OfLocalStepsIsThreeNumbersAParameter) {
  const plan::Plan whole = apart(256, "mode = \"local\"");
  const ExchangeMemory kept = exchange_memory(whole, 0, 0);
  EXPECT_EQ(kept, (ExchangeMemory{.anchor = one_each(whole), .momentum = one_each(whole)}));
  const plan::Plan streamed = apart(256, "mode = \"local\"\nfragments = 2");
  EXPECT_EQ(exchange_memory(streamed, 3, 0).total(), 3 * one_each(streamed));
  const plan::Plan plain = apart(256, "mode = \"local\"\nouter_momentum = 0.0");
  EXPECT_EQ(exchange_memory(plain, 0, 0).total(), one_each(plain));
  EXPECT_EQ(exchange_memory(apart(256, "overlap = true"), 0, 0), ExchangeMemory{});
}

// Two replicas of a datacenter lead in turns, so both together keep one residual.
TEST(ExchangeMemory, ResidualsLieWithWhoLeads) {
  for (const char* mode : {"mode = \"sparse\"", "mode = \"sparse-local\""}) {
    const plan::Plan plan = apart(512, mode);
    ASSERT_GT(plan::gradient_groups(plan, 0).size(), 1u);
    const Bytes first = exchange_memory(plan, 0, 0).residuals;
    const Bytes second = exchange_memory(plan, 1, 0).residuals;
    EXPECT_GT(first, Bytes{});
    EXPECT_GT(second, Bytes{});
    EXPECT_EQ(first + second, one_each(plan));
  }
}

// A sixteenth of a number for each: the step of a block's last gradient.
TEST(ExchangeMemory, SparseOptimizersRememberTheirBlocks) {
  const plan::Plan plan = apart(256, "mode = \"sparse\"");
  const double kept = exchange_memory(plan, 0, 0).last_steps.value;
  EXPECT_NEAR(kept, one_each(plan).value / 16, 4.0 * 8);
}

TEST(ExchangeMemory, CountsInWhatARankNeeds) {
  const plan::Plan plan = apart(256, "mode = \"local\"\nfragments = 2");
  plan::Plan dense = plan;
  dense.exchange.reset();
  const auto needs = peak_memory(plan, *build(plan)), without = peak_memory(dense, *build(dense));
  for (size_t r = 0; r < needs.size(); ++r)
    EXPECT_EQ(needs[r], without[r] + exchange_memory(plan, static_cast<int32_t>(r), 0).total());
}

}  // namespace
}  // namespace tombolo::schedule
