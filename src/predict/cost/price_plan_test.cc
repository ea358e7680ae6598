#include "predict/cost/price_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "predict/cost/exchange_time.h"
#include "predict/cost/iteration.h"
#include "predict/cost/law.h"
#include "predict/cost/roofline.h"
#include "support/job_texts.h"

namespace tombolo::cost {
namespace {

using ::testing::HasSubstr;

// Operator by operator, which is about what the roofline of the whole stage says.
TEST(PricePlan, TheLawOfCpusIsRoofline) {
  const plan::Plan plan = *make_plan(*plan::parse_job(test::kTwoCpus, "job.toml"));
  EXPECT_EQ(plan.cost_source, plan::CostSource::kRoofline);
  for (const plan::Stage& stage : plan.stages) {
    const plan::StageCost whole =
        roofline(plan.model, stage.slice, plan.device_of(0),
                 {.micro_batch = plan.training.micro_batch, .element_bytes = 4});
    EXPECT_NEAR(stage.cost.forward / whole.forward, 1, 0.25);
  }
}

// Two replicas in each of two datacenters: each keeps and updates half of the optimizer's state, and no less
// because there are four of them.
TEST(PricePlan, ShardsTheOptimizerWithinEachDatacenter) {
  const auto priced = [](const char* zero, const char* replicas) {
    std::string text = test::kApart;
    const auto replace = [&](const std::string& from, const std::string& to) {
      text.replace(text.find(from), from.size(), to);
    };
    replace("hidden = 64", "hidden = 4096");
    replace("pipeline = 2\ndata = 2\n", std::string("pipeline = 1\n") + zero);
    replace("datacenter_per_replica = [\"cloud\", \"lab\"]", replicas);
    return *make_plan(*plan::parse_job(text, "job.toml"));
  };
  const char* four = "data = 4\ndatacenter_per_replica = [\"cloud\", \"lab\", \"cloud\", \"lab\"]";
  const char* two = "data = 2\ndatacenter_per_replica = [\"cloud\", \"cloud\"]";
  const plan::Plan whole = priced("", four), shared = priced("zero = 1\n", four);
  const plan::Plan at_home = priced("zero = 1\n", two);
  EXPECT_NEAR(shared.stages[0].state / at_home.stages[0].state, 1, 1e-12);
  EXPECT_NEAR(shared.stages[0].cost.update / at_home.stages[0].cost.update, 1, 1e-12);
  EXPECT_LT(shared.stages[0].state, whole.stages[0].state * 0.7);
  EXPECT_LT(shared.stages[0].cost.update, whole.stages[0].cost.update);
  EXPECT_EQ(shared.stages[0].gradients, whole.stages[0].gradients);
}

// A ring of two: two steps of half the gradients. Over the network in "a", inside a node in "b".
TEST(PricePlan, TheSlowestHopOfTheRingDecidesWhereStagesWereMeasured) {
  const plan::Job job = *plan::parse_job(test::kReplicated, "job.toml");
  const plan::Plan by_law = *make_plan(job);
  plan::Hardware hardware{.model = by_law.model,
                          .micro_batch = by_law.training.micro_batch,
                          .precision = std::string(to_name(by_law.training.precision)),
                          .recompute = by_law.training.recompute};
  for (int32_t s = 0; s < std::ssize(by_law.stages); ++s) {
    hardware.stages.push_back({.slice = by_law.stages[s].slice,
                               .device = by_law.device_of(by_law.rank_of(s, 0)).name,
                               .cost = {.forward = 1_ms, .backward = 2_ms}});
  }
  const Result<plan::Plan> made = make_plan(job, &hardware);
  ASSERT_TRUE(made) << made.error().text();
  const plan::Plan& plan = *made;
  EXPECT_DOUBLE_EQ(plan.stages[0].cost.reduce.value,
                   2 * (1e-3 + plan.stages[0].gradients.value / 2 / 1e9));
  EXPECT_DOUBLE_EQ(plan.stages[1].cost.reduce.value,
                   2 * (2e-6 + plan.stages[1].gradients.value / 2 / 1e10));
}

// Two replicas swap all they have over the WAN; that is the sum alone, beside nothing.
TEST(PricePlan, ASumAcrossDatacentersTakesWhatTheWanTakes) {
  const plan::Plan plan = *make_plan(*plan::parse_job(test::kApart, "job.toml"));
  for (const plan::Stage& stage : plan.stages) {
    EXPECT_GT(stage.gradients.value, 0);
    EXPECT_DOUBLE_EQ(stage.cost.reduce.value, 20e-3 + stage.gradients.value / 125e3);
    EXPECT_EQ(stage.cost.reduce_hidden, 0_s);
  }
}

// Four microbatches of 30 ms compute for 120 ms, of which an exchange may take 108: 20 ms of latency and what 125
// KB/s carry in 88 ms.
TEST(PricePlan, AFirstDensityTakesNineTenthsOfWhatAnIterationComputes) {
  const std::string text = std::string(test::kApart) +
                           "[stage_times]\nforward = \"10 ms\"\nbackward = \"20 ms\"\n"
                           "[exchange]\nmode = \"sparse\"\n";
  plan::Plan plan = *make_plan(*plan::parse_job(text + "density = \"auto\"\n", "job.toml"));
  const double density = *plan.exchange->density;
  EXPECT_GT(density, 0.02);
  EXPECT_LT(density, 0.05);
  const auto takes = [&](double of) {
    plan.exchange->density = of;
    return std::max(exchange_alone(plan, 0), exchange_alone(plan, 1)).value;
  };
  EXPECT_LT(takes(density), 0.109);
  EXPECT_GT(takes(density * 1.05), 0.108);
  // What a job says is left as it is, and where nothing fits it is the lowest.
  const auto said = make_plan(
      *plan::parse_job(text + "density = 0.03\ndensity_range = [0.01, 0.04]\n", "job.toml"));
  EXPECT_EQ(said->exchange->density, 0.03);
  const auto tight = make_plan(*plan::parse_job(text + "density_range = [0.2, 0.4]\n", "job.toml"));
  EXPECT_EQ(tight->exchange->density, 0.2);
}

// With ZeRO-1 each replica of the two then sends the other its half of the parameters.
TEST(PricePlan, ShardedReplicasPassParametersRoundAfterTheUpdate) {
  plan::Job job = *plan::parse_job(test::kReplicated, "job.toml");
  const plan::Plan by_law = *make_plan(job);
  plan::Hardware hardware{.model = by_law.model,
                          .micro_batch = by_law.training.micro_batch,
                          .precision = std::string(to_name(by_law.training.precision)),
                          .recompute = by_law.training.recompute};
  for (int32_t s = 0; s < std::ssize(by_law.stages); ++s) {
    hardware.stages.push_back({.slice = by_law.stages[s].slice,
                               .device = by_law.device_of(by_law.rank_of(s, 0)).name,
                               .cost = {.forward = 1_ms, .backward = 2_ms, .update = 3_ms}});
  }
  job.parallelism.zero = 1;
  const Result<plan::Plan> made = make_plan(job, &hardware);
  ASSERT_TRUE(made) << made.error().text();
  for (const plan::Stage& stage : made->stages) {
    const double parameters = static_cast<double>(model::parameters(made->model, stage.slice));
    EXPECT_DOUBLE_EQ(stage.gradients.value, plan::gradient_bytes(*made) * parameters);
    const double sent = plan::element_bytes(made->training.precision) * parameters / 2;
    const bool first = &stage == &made->stages[0];
    EXPECT_NEAR(stage.cost.update.value,
                first ? 3e-3 + 1e-3 + sent / 1e9 : 3e-3 + 2e-6 + sent / 1e10, 1e-12);
  }
}

// Whatever parallelism: the Plan has what the law says of each stage, and fits where the law says
// so.
TEST(PricePlan, TheLawOfAcceleratorsIsTombolo) {
  for (const char* recompute : {"none", "full"}) {
    for (const char* zero : {"0", "1", "3"}) {
      std::string text = test::datacenters({{"a", 4}}, "h100-80g");
      text.replace(text.find("nodes = 4"), 9, "nodes = 4\ndevices_per_node = 8");
      text += fmt::format(R"(
        [model]
        preset = "llama3-8b"
        [training]
        global_batch = 64
        stack = "nemo"
        recompute = "{}"
        [parallelism]
        tensor = 4
        context = 2
        pipeline = 2
        data = 2
        sequence_parallel = true
        zero = {}
      )",
                          recompute, zero);
      SCOPED_TRACE(text);
      const plan::Job job = *plan::parse_job(text, "job.toml");
      const plan::Plan plan = *make_plan(job);
      EXPECT_EQ(plan.cost_source, plan::CostSource::kTombolo);
      EXPECT_EQ(plan.constants, constants_digest());
      const IterationLaw law =
          *IterationLaw::make(*job.model, job.cluster.datacenters[0], settings_of(job));
      const Configuration c = *configuration_of(job);
      for (const plan::Stage& stage : plan.stages) {
        const StagePrice price = law.stage(c, stage.slice);
        const plan::PassCommunication& inside = stage.cost.forward_communication;
        const Seconds data = inside.data + stage.cost.backward_communication.data;
        EXPECT_DOUBLE_EQ((stage.cost.forward - inside.data).value, price.forward.value);
        EXPECT_NEAR((stage.cost.forward + stage.cost.backward + stage.cost.recompute - data).value,
                    (price.forward + price.backward).value, 1e-12);
        // Sequences are summed and gathered in every layer; what ZeRO 3 gathers, it gathers for
        // each of 32 microbatches.
        EXPECT_GT(inside.tensor, 0_s);
        EXPECT_EQ(data > 0_s, zero == std::string("3"));
        EXPECT_NEAR((32 * data + stage.cost.reduce).value, price.gradients.value, 1e-12);
        EXPECT_EQ(stage.gradients > 0_B, zero != std::string("3"));
        EXPECT_EQ(stage.cost.recompute > 0_s,
                  recompute == std::string("full") && !stage.slice.head);
      }
      // 1F1B: the first stage keeps two microbatches, the second one.
      Bytes most;
      for (size_t s = 0; s < 2; ++s) {
        const plan::Stage& stage = plan.stages[s];
        most = std::max(most, stage.state + stage.workspace + stage.activations * (s == 0 ? 2 : 1));
      }
      EXPECT_NEAR(most.value, law.memory(c).total().value, 1);
    }
  }
}

TEST(PricePlan, MeasurementsReplaceTheLaw) {
  const plan::Job job = *plan::parse_job(test::kTwoCpus, "job.toml");
  plan::Hardware hardware;
  hardware.model = *job.model;
  hardware.micro_batch = 2;
  hardware.precision = "fp32";
  hardware.stages = {{{0, 2, true, false}, "cpu", {1_ms, 2_ms, 0_s, 3_ms}},
                     {{2, 2, false, true}, "cpu", {4_ms, 5_ms, 0_s, 6_ms}}};
  hardware.links = {{{"east", "west"}, 21_ms, 100_MBps}};
  const plan::Plan plan = *make_plan(job, &hardware);
  EXPECT_EQ(plan.cost_source, plan::CostSource::kProfile);
  EXPECT_EQ(plan.stages[1].cost.backward, 5_ms);
  EXPECT_EQ(plan::expected_channel(plan, 0, 1).latency, 21_ms);
  EXPECT_EQ(plan::channel_between(plan, 0, 1).latency, 20_ms);  // what the runtime emulates

  hardware.micro_batch = 4;
  const Result<plan::Plan> other = make_plan(job, &hardware);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().text(), HasSubstr("measured for another micro_batch (4)"));
  EXPECT_THAT(other.error().text(), HasSubstr("tombolo profile job.toml"));
}

}  // namespace
}  // namespace tombolo::cost
