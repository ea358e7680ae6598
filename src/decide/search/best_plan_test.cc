#include "decide/search/best_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"

namespace tombolo::search {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

plan::OpenJob open_job(int64_t nodes, const std::string& training = "",
                       const std::string& parallelism = "") {
  const Result<plan::OpenJob> open = plan::parse_open_job(fmt::format(R"(
[model]
preset = "llama3-8b"
sequence = 8192
[[cluster.datacenter]]
name = "oregon"
device = "h100-80g"
nodes = {}
devices_per_node = 8
price = "2 USD/device-hour"
[training]
global_batch = 64
stack = "megatron"
{}
[parallelism]
{}
)",
                                                                      nodes, training, parallelism),
                                                          "job.toml");
  if (!open) throw open.error().text();
  return *open;
}

std::string complaint(const plan::OpenJob& open, const BestPlanOptions& options = {}) {
  const Result<BestPlan> found = best_plan(open, options);
  return found ? std::string() : found.error().text();
}

TEST(BestPlan, AgreesWithTheEstimateOfWhatItFound) {
  for (const cost::Law law : {cost::Law::kTombolo, cost::Law::kRailOnly}) {
    const BestPlan found = *best_plan(open_job(2), {.law = law, .with_band = false});
    EXPECT_EQ(found.top.size(), 5u);
    for (const RankedPlan& plan : found.top) {
      const estimate::Estimate again = *estimate::estimate(plan.job, law);
      EXPECT_DOUBLE_EQ(again.iteration.value, plan.candidate.time.value);
      EXPECT_DOUBLE_EQ(again.memory.total().value, plan.candidate.memory.value);
      EXPECT_DOUBLE_EQ(*again.mfu, plan.mfu);
      EXPECT_DOUBLE_EQ(again.price->value, plan.price->value);
      EXPECT_TRUE(again.fits());
    }
  }
  // Also where stages differ by a layer, in one chunk and in several.
  for (const char* stages : {"virtual_stages = 1", "virtual_stages = 2"}) {
    plan::OpenJob open = open_job(2, "", fmt::format("pipeline = 4\n{}", stages));
    open.job.model->layers = 30;
    const BestPlan uneven = *best_plan(open, {.with_band = false});
    EXPECT_EQ(uneven.top.size(), 5u);
    for (const RankedPlan& plan : uneven.top) {
      const estimate::Estimate again = *estimate::estimate(plan.job, cost::Law::kTombolo);
      EXPECT_DOUBLE_EQ(again.iteration.value, plan.candidate.time.value);
      EXPECT_DOUBLE_EQ(again.memory.total().value, plan.candidate.memory.value);
    }
  }
}

// The closed form puts first what the simulator, which knows more, may put behind others.
TEST(BestPlan, RanksItsFinalistsByWhatTheSimulatorSays) {
  plan::OpenJob open = open_job(2, "", "pipeline = 4\nvirtual_stages = 1");
  open.job.model->layers = 30;
  const BestPlan plain = *best_plan(open, {.top = 16, .with_band = false});
  EXPECT_EQ(plain.finals.of, 0);
  const BestPlan found = *best_plan(
      open, {.top = 3, .with_band = false, .finals = {.candidates = 16, .at_most = Seconds{1e3}}});
  ASSERT_EQ(found.top.size(), 3u);
  EXPECT_EQ(found.finals.simulated, 16);
  EXPECT_EQ(found.finals.of, 16);
  Seconds least{1e9};
  int apart = 0;
  for (const RankedPlan& plan : plain.top) {
    EXPECT_FALSE(plan.simulated);
    const Seconds simulated = seconds(sim::simulate(*cost::make_plan(plan.job))->iteration);
    least = std::min(least, simulated);
    apart += std::abs(simulated / plan.candidate.time - 1) > kApart;
  }
  EXPECT_EQ(found.finals.apart, apart);
  EXPECT_EQ(found.top[0].iteration(), least);
  for (size_t i = 0; i < 3; ++i) {
    const RankedPlan& plan = found.top[i];
    ASSERT_TRUE(plan.simulated);
    if (i > 0) {
      EXPECT_GE(plan.iteration(), found.top[i - 1].iteration());
    }
    EXPECT_EQ(*plan.simulated, seconds(sim::simulate(*cost::make_plan(plan.job))->iteration));
    const estimate::Estimate closed = *estimate::estimate(plan.job, cost::Law::kTombolo);
    EXPECT_DOUBLE_EQ(closed.iteration.value, plan.candidate.time.value);
    EXPECT_DOUBLE_EQ(plan.mfu * plan.simulated->value, *closed.mfu * closed.iteration.value);
    EXPECT_NEAR(plan.price->value / closed.price->value, *plan.simulated / closed.iteration, 1e-12);
  }
}

TEST(BestPlan, SimulatesNoMoreFinalistsThanFitIntoTheTime) {
  const plan::OpenJob open = open_job(2, "", "pipeline = 4");
  const auto simulated = [&](Seconds at_most) {
    return best_plan(open, {.with_band = false, .finals = {.candidates = 16, .at_most = at_most}})
        ->finals.simulated;
  };
  EXPECT_EQ(simulated(Seconds{1e-6}), 0);
  const int64_t some = simulated(Seconds{0.01});
  EXPECT_GT(some, 0);
  EXPECT_LT(some, 16);
  EXPECT_EQ(simulated(Seconds{1e3}), 16);
}

TEST(BestPlan, StopsWhatItSimulates) {
  const plan::OpenJob open = open_job(2, "", "pipeline = 4");
  BestPlanOptions options{.with_band = false,
                          .finals = {.candidates = 16, .at_most = Seconds{1e3}}};
  const auto all = best_plan(open, options);
  ASSERT_TRUE(all);
  int64_t least = 16, most = 0;
  for (int asks = 0; asks < 1'000'000; asks = 2 * asks + 1) {
    int asked = 0;
    options.finals.stop = [&] { return ++asked > asks; };
    const auto found = best_plan(open, options);
    ASSERT_TRUE(found);
    least = std::min(least, found->finals.simulated);
    most = std::max(most, found->finals.simulated);
    EXPECT_EQ(found->finals.of, all->finals.of);
    EXPECT_FALSE(found->stopped);
  }
  EXPECT_EQ(least, 0);
  EXPECT_EQ(most, all->finals.simulated);
}

TEST(BestPlan, KeepsWhatTheJobFixes) {
  const BestPlan found = *best_plan(open_job(2, "micro_batch = 1\nrecompute = \"full\"",
                                             "tensor = 4\nzero = 1\nsequence_parallel = false"),
                                    {.top = 10, .with_band = false});
  EXPECT_EQ(found.top.size(), 10u);
  for (const RankedPlan& plan : found.top) {
    const layout::Parallelism& p = plan.job.parallelism;
    EXPECT_EQ(p.tensor, 4);
    EXPECT_EQ(p.zero, 1);
    EXPECT_FALSE(p.sequence_parallel);
    EXPECT_EQ(plan.job.training.micro_batch, 1);
    EXPECT_EQ(plan.job.training.recompute, model::Recompute::kFull);
  }
  EXPECT_FALSE(found.why_not.empty());
  for (const WhyNot& why : found.why_not) EXPECT_NE(why.axis, Axis::kTensor);
}

TEST(BestPlan, SaysWhatStayedIdle) {
  // 3 nodes are 24 devices, but 64 sequences have no divisor of 3.
  const BestPlan found =
      *best_plan(open_job(3, "", "tensor = 1\npipeline = 1\ncontext = 1"), {.with_band = false});
  EXPECT_EQ(found.top[0].candidate.configuration.data, 16);
  EXPECT_EQ(found.top[0].idle_devices, 8);
}

TEST(BestPlan, CheapestIsNoDearerAndNoFasterThanFastest) {
  const BestPlan fast = *best_plan(open_job(4), {.with_band = false});
  const BestPlan cheap =
      *best_plan(open_job(4), {.objective = Objective::kCost, .with_band = false});
  EXPECT_LE(cheap.top[0].price, fast.top[0].price);
  EXPECT_GE(cheap.top[0].candidate.time, fast.top[0].candidate.time);
  const BestPlan busy =
      *best_plan(open_job(4), {.objective = Objective::kThroughput, .with_band = false});
  EXPECT_EQ(busy.top[0].candidate.configuration, fast.top[0].candidate.configuration);
}

TEST(BestPlan, SaysWhyNotWithNumbers) {
  plan::OpenJob open = open_job(2);
  open.job.model->kv_heads = 32;  // 8 would not let 16 divide them
  const BestPlan found = *best_plan(open, {.with_band = false});
  const auto find = [&](const std::string& family) {
    const auto why = std::find_if(found.why_not.begin(), found.why_not.end(), [&](const WhyNot& w) {
      return family_text(w.axis, w.value) == family;
    });
    return why == found.why_not.end() ? WhyNot() : *why;
  };
  const WhyNot wide = find("tensor = 16");
  EXPECT_TRUE(wide.beyond_domain);
  EXPECT_THAT(wide.text, StartsWith("leaves the scale-up domain of 8: "));
  const Candidate& best = found.top[0].candidate;
  for (const WhyNot& why : found.why_not) {
    EXPECT_NE(value_on(best.configuration, why.axis), why.value);
    if (why.obstacle == Obstacle::kMemory) {
      EXPECT_GT(why.nearest.memory, found.memory_of_device);
      EXPECT_THAT(why.text, HasSubstr("needs "));
    } else {
      EXPECT_EQ(value_on(why.nearest.configuration, why.axis), why.value);
      EXPECT_GE(why.nearest.time, best.time);
    }
  }
  EXPECT_LT(short_list(found.why_not).size(), found.why_not.size());
}

TEST(BestPlan, NothingFitsIsAnAnswerWithAWayOut) {
  // On one device 8 billion parameters need 128 GB and more.
  const plan::OpenJob one = open_job(1, "", "tensor = 1\npipeline = 1\ncontext = 1\ndata = 1");
  const Result<BestPlan> found = best_plan(one, {});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().exit_code(), 3);
  EXPECT_THAT(found.error().text(), HasSubstr("job.toml: nothing fits into h100-80g: the closest"));
  EXPECT_THAT(found.error().text(), HasSubstr("of 83.8 GB"));
  EXPECT_THAT(found.error().text(), HasSubstr("tensor 1, pipeline 1, data 1"));
  EXPECT_THAT(found.error().text(), HasSubstr("try tensor = \"auto\""));

  EXPECT_THAT(complaint(open_job(1, "", "tensor = 8\npipeline = 4")),
              HasSubstr("no parallelism divides"));
}

TEST(BestPlan, RefusesByNameWhatCannotBeSearched) {
  EXPECT_THAT(complaint(open_job(2, "", "tensor = 3")),
              HasSubstr("parallelism.tensor = 3: does not divide heads = 32"));
  EXPECT_THAT(complaint(open_job(2, "", "expert = 2")), HasSubstr("the model has no experts"));
  EXPECT_THAT(complaint(open_job(2, "", "context = 2"), {.law = cost::Law::kRailOnly}),
              HasSubstr("the law rail-only does not know it"));
  EXPECT_THAT(complaint(open_job(2, "", "order = \"tp-tp\"")), HasSubstr("parallelism.order"));
}

TEST(BestPlan, SplitsLayersThatDoNotDivide) {
  // 30 layers on 4 stages, embedding and head counted: 7, 8, 8, 7.
  plan::OpenJob open = open_job(1, "", "pipeline = 4\nvirtual_stages = 1");
  open.job.model->layers = 30;
  const BestPlan found = *best_plan(open, {.with_band = false});
  EXPECT_THAT(found.top[0].job.parallelism.layers_per_stage, ::testing::ElementsAre(7, 8, 8, 7));
}

TEST(BestPlan, NotesAScheduleThatIsNotSearched) {
  const auto notes = [](const std::string& schedule) {
    return best_plan(open_job(2, "micro_batch = 1", "schedule = \"" + schedule + "\""), {})->notes;
  };
  const auto note = ::testing::HasSubstr("parallelism.schedule = \"zb-v\" has no effect");
  EXPECT_THAT(notes("zb-v"), ::testing::Contains(note));
  EXPECT_THAT(notes("1f1b"), ::testing::Not(::testing::Contains(HasSubstr("has no effect"))));
  // It is searched; but the best plan of two devices is not of it.
  EXPECT_THAT(notes("interleaved"), ::testing::Contains(HasSubstr("has no virtual stages")));
}

}  // namespace
}  // namespace tombolo::search
