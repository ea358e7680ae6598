#include "predict/cost/stage_laws.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "predict/cost/law.h"
#include "predict/cost/price_plan.h"
#include "support/job_texts.h"

namespace tombolo::cost {
namespace {

using ::testing::HasSubstr;

// Two stages on two kinds of devices, the second over twice the shards.
plan::Plan unlike_plan(const std::string& more = "") {
  const std::string text = R"(
[model]
preset = "llama3-8b"
[[cluster.datacenter]]
name = "a"
device = "a100-80g"
nodes = 2
devices_per_node = 8
price = "2 USD/device-hour"
[[cluster.datacenter]]
name = "b"
device = "h100-80g"
nodes = 2
devices_per_node = 8
price = "3 USD/device-hour"
[[cluster.wan]]
between = ["a", "b"]
one_way_latency = "5 ms"
node_pair_limit = "10 Gbps"
price = "0.02 USD/GB"
[training]
global_batch = 32
recompute = "full"
[parallelism]
pipeline = 2
data = 2
tensor_per_stage = [2, 4]
sequence_parallel = true
zero = 1
)" + more;
  const Result<plan::Plan> plan = make_plan(*plan::parse_job(text, "job.toml"));
  EXPECT_TRUE(plan) << plan.error().text();
  return *plan;
}

TEST(StageLaws, AnIterationIsThatOfThePlansOwnTimes) {
  const plan::Plan plan = unlike_plan();
  const PlanPrediction predicted = *predict_plan(plan, "job.toml");
  ASSERT_EQ(predicted.stages.size(), 2u);
  const auto pass = [&](size_t s) {
    const plan::StageCost& cost = plan.stages[s].cost;
    return cost.forward + cost.backward + cost.recompute;
  };
  // 2 of 8 devices per node and stage: both replicas on one pair of nodes share its 10 Gbps.
  const Seconds occupancy = plan.boundary / (10_Gbps / 2);
  const Seconds there = 5_ms + occupancy;
  EXPECT_NEAR(predicted.time.round_trip.value, (pass(0) + pass(1) + 2 * there).value, 1e-12);
  const Seconds period =
      std::max({pass(0), pass(1), (pass(0) + pass(1) + 2 * there) / 2.0, occupancy});
  EXPECT_NEAR(predicted.time.period.value, period.value, 1e-12);
  Seconds end;
  for (const plan::Stage& stage : plan.stages) {
    end = std::max(end, stage.cost.update + stage.cost.reduce);
  }
  EXPECT_EQ(predicted.time.end, end);
  EXPECT_NEAR(predicted.time.iteration.value, (predicted.time.round_trip + 15 * period + end).value,
              1e-12);
  EXPECT_EQ(predicted.devices, 2 * 2 + 2 * 4);
  // 4 A100 at 2 dollars and 8 H100 at 3; 16 microbatches of 2 pipelines, there and back.
  EXPECT_NEAR(predicted.ledger.cost(predicted.time.iteration).devices->value,
              (4 * 2 + 8 * 3) / 3600.0 * predicted.time.iteration.value, 1e-12);
  EXPECT_NEAR(predicted.ledger.egress().value, 64 * plan.boundary.value * 0.02e-9, 1e-12);
}

// What the simulator keeps of a stage: its state, its workspace, and the microbatches in flight.
TEST(StageLaws, TheMemoryIsThatOfThePlan) {
  const plan::Plan plan = unlike_plan();
  const PlanPrediction predicted = *predict_plan(plan, "job.toml");
  for (size_t s = 0; s < 2; ++s) {
    const plan::Stage& stage = plan.stages[s];
    const Bytes expected = stage.state + stage.workspace + real(s == 0 ? 2 : 1) * stage.activations;
    EXPECT_NEAR(predicted.stages[s].memory.total().value, expected.value, 1);
  }
  EXPECT_EQ(&predicted.fullest(), &predicted.stages[0]);
}

// What a search compares is what the Plan then carries.
TEST(StageLaws, APlanCarriesThePricesOfTheSearch) {
  const plan::Plan plan = unlike_plan();
  const StageLaws laws = *StageLaws::make(plan.model, plan);
  EXPECT_TRUE(laws.across());
  const Configuration of_all = *configuration_of(plan.parallelism, plan.training, "job.toml");
  for (const int32_t s : {0, 1}) {
    const plan::Stage& stage = plan.stages[static_cast<size_t>(s)];
    const Configuration c = stage_configuration(of_all, plan.parallelism.tensor_at(s), true);
    const StagePrice price = laws.stage(plan.datacenter_index(plan.rank_of(s, 0)), c, stage.slice);
    EXPECT_DOUBLE_EQ(price.forward.value, stage.cost.forward.value);
    EXPECT_DOUBLE_EQ(price.backward.value, (stage.cost.backward + stage.cost.recompute).value);
    EXPECT_DOUBLE_EQ(price.update.value, stage.cost.update.value);
    EXPECT_DOUBLE_EQ(price.gradients.value, stage.cost.reduce.value);
  }
}

TEST(StageLaws, GivenTimesAreTaken) {
  const plan::Plan plan = unlike_plan(
      "[stage_times]\nforward = \"10 ms\"\nbackward = \"20 ms\"\ntransfer = \"40 ms\"\n"
      "latency = \"3 ms\"\n");
  // 2 x 30 ms and twice 43 ms; two microbatches pass in one round trip.
  const PlanPrediction predicted = *predict_plan(plan, "job.toml");
  EXPECT_NEAR(predicted.time.round_trip.value, 0.146, 1e-12);
  EXPECT_NEAR(predicted.time.period.value, 0.073, 1e-12);
}

// Two stages of three replicas of two devices fill three nodes of four, so those that cross start
// behind half a node: no pair of nodes carries two of them, though two lie on node 2 and two on node 0.
TEST(StageLaws, ReplicasOnNodesOfTheirOwnShareNoPair) {
  const plan::Plan plan = *make_plan(*plan::parse_job(R"(
[model]
preset = "llama3-8b"
[[cluster.datacenter]]
name = "a"
device = "h100-80g"
nodes = 3
devices_per_node = 4
[[cluster.datacenter]]
name = "b"
device = "h100-80g"
nodes = 2
devices_per_node = 4
[[cluster.wan]]
between = ["a", "b"]
one_way_latency = "5 ms"
node_pair_limit = "10 Gbps"
[training]
global_batch = 24
[parallelism]
pipeline = 3
data = 3
tensor = 2
)",
                                                      "job.toml"));
  ASSERT_EQ(plan.ranks[plan.rank_of(1, 0)].datacenter, "a");
  ASSERT_EQ(plan.ranks[plan.rank_of(2, 0)].datacenter, "b");
  const Hop hop = *wan_hop(plan, plan.rank_of(1, 0), plan.rank_of(2, 0));
  EXPECT_NEAR(hop.occupancy.value, (plan.boundary / 10_Gbps).value, 1e-12);
  EXPECT_NEAR(hop.transfer.value, (5_ms + hop.occupancy).value, 1e-12);
}

// What a window holds back is a flow's own; only the limit of the pair is shared.
TEST(StageLaws, FlowsOnOnePairHaveWindowsOfTheirOwn) {
  const plan::Plan plan = unlike_plan();
  cluster::WanLink link = plan.cluster.wan[0];
  link.connections = 1;
  link.tcp_window = 5_MB;  // 5 MB in 10 ms: 4 Gbps each, of 10 for two
  const WanEnd a{&plan.cluster.datacenters[0], 2}, b{&plan.cluster.datacenters[1], 4};
  EXPECT_NEAR(wan_hop(link, a, b, 2, 1_GB).occupancy.value, 2, 1e-9);
  link.tcp_window = 10_MB;  // 8 Gbps each
  EXPECT_NEAR(wan_hop(link, a, b, 2, 1_GB).occupancy.value, 1.6, 1e-9);
}

TEST(StageLaws, SeveralStagesPerRankAreRefused) {
  plan::Plan plan = unlike_plan();
  plan.parallelism.virtual_stages = 2;
  const auto refused = predict_plan(plan, "job.toml");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().exit_code(), 2);
  EXPECT_THAT(refused.error().text(), HasSubstr("virtual_stages = 2"));
  EXPECT_THAT(refused.error().text(), HasSubstr("try tombolo simulate"));
}

TEST(StageLawsDeathTest, CallersKeepTheirPromises) {
  EXPECT_DEATH((void)stage_configuration({}, 0, true), "a stage on 0 devices");
  EXPECT_DEATH((void)PlanPrediction{}.fullest(), "a prediction of no stage");
  const plan::Plan plan = unlike_plan();
  const StageLaws laws = *StageLaws::make(plan.model, plan);
  EXPECT_DEATH((void)laws.in(2), "datacenter 2 of 2");
  const cluster::Datacenter& here = plan.cluster.datacenters[0];
  const cluster::WanLink& link = plan.cluster.wan[0];
  EXPECT_DEATH((void)wan_hop(link, {&here, 1}, {nullptr, 1}, 1, 1_MB),
               "1 devices of no datacenter");
  EXPECT_DEATH((void)wan_hop(link, {&here, 1}, {&here, 1}, 0, 1_MB), "0 replicas of a stage");
}

}  // namespace
}  // namespace tombolo::cost
