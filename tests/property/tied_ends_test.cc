// The ends of a pipeline that hold copies of a tied embedding send each other its gradient, in time as in
// bytes, by hand.
#include <gtest/gtest.h>

#include "decide/geo/mixed.h"
#include "decide/geo/select_job.h"
#include "predict/cost/price_plan.h"
#include "predict/cost/stage_laws.h"
#include "predict/ledger/plan_ledger.h"
#include "predict/sim/simulate.h"
#include "predict/sim/trace_check.h"
#include "spec/plan/job.h"
#include "spec/plan/open_job.h"

namespace tombolo {
namespace {

// One microbatch of 48 tokens through two stages, 10 ms apart: a boundary is 48 x 96 x 4 = 18,432 B and
// occupies 1 Gbps for 147,456 ns; the matrix is 1,000 x 96 x 4 = 384,000 B, 3,072,000 ns.
std::string job_text(bool tied, const std::string& times) {
  return fmt::format(
      "[model]\nlayers = 2\nhidden = 96\nheads = 6\nvocabulary = 1000\nsequence = 48\n"
      "tied_embeddings = {}\n"
      "[[cluster.datacenter]]\nname = \"a\"\ndevice = \"a100-80g\"\ndevices_per_node = 1\n"
      "[[cluster.datacenter]]\nname = \"b\"\ndevice = \"a100-80g\"\ndevices_per_node = 1\n"
      "[[cluster.wan]]\nbetween = [\"a\", \"b\"]\none_way_latency = \"10 ms\"\n"
      "node_pair_limit = \"1 Gbps\"\n"
      "[training]\nglobal_batch = 1\nprecision = \"fp32\"\n"
      "[parallelism]\npipeline = 2\ndatacenter_per_stage = [\"a\", \"b\"]\n{}",
      tied, times);
}
const std::string kTimes = "[stage_times]\nforward = \"1 ms\"\nbackward = \"2 ms\"\n";

plan::Plan plan_of(bool tied, const std::string& times) {
  return *cost::make_plan(*plan::parse_job(job_text(tied, times), "job.toml"));
}

struct Times {
  int64_t simulated = 0, closed = 0;
};
Times times_of(const plan::Plan& plan) {
  const Result<sim::Simulation> simulated = sim::simulate(plan);
  EXPECT_TRUE(simulated);
  const Result<sim::Check> check = sim::check_trace(plan, simulated->trace);
  EXPECT_TRUE(check && check->violations.empty())
      << (check ? check->violations.front().text : check.error().text());
  return {simulated->iteration.ns,
          round_to_ns(cost::predict_plan(plan, "job.toml")->time.iteration).ns};
}

// There and back: 2 x 3 ms of passes and 2 x 10,147,456 ns. Then the first stage's gradient is under way
// for 13,072,000 ns, while the last one's came behind the last boundary's.
TEST(TiedEnds, MeetAfterTheLastBackwardPass) {
  const Times apart = times_of(plan_of(false, kTimes));
  EXPECT_EQ(apart.simulated, 26'294'912);
  EXPECT_EQ(apart.closed, 26'294'912);
  const plan::Plan plan = plan_of(true, kTimes);
  const Times tied = times_of(plan);
  EXPECT_EQ(tied.simulated, 26'294'912 + 13'072'000);
  EXPECT_EQ(tied.closed, tied.simulated);
  const trace::Trace trace = sim::simulate(plan)->trace;
  std::vector<std::tuple<int32_t, int64_t, int64_t, int64_t>> messages;
  for (const trace::Interval& each : trace.intervals) {
    if (each.action.kind != action::ActionKind::kSumTied || each.iteration != 1) continue;
    messages.emplace_back(each.action.stage, each.start.ns, each.end.ns, each.bytes);
  }
  EXPECT_EQ(messages,
            (std::vector<std::tuple<int32_t, int64_t, int64_t, int64_t>>{
                {1, 14'294'912, 27'366'912, 384'000}, {0, 26'294'912, 39'366'912, 384'000}}));
  EXPECT_EQ(ledger::note_on_tied_ends(plan), "");
}

// A boundary that takes 5 ms says how fast the link is: the matrix takes 384,000/18,432 times as long.
TEST(TiedEnds, TakeInProportionToAStatedTransfer) {
  const Times tied = times_of(plan_of(true, kTimes + "transfer = \"5 ms\"\n"));
  EXPECT_EQ(tied.simulated, 2 * (3'000'000 + 15'000'000) + 10'000'000 + 104'166'667);
  EXPECT_EQ(tied.closed, tied.simulated);
}

TEST(TiedEnds, AreChargedByClosedForms) {
  // Algorithm 1 of Atlas, with a GPU in each of two datacenters.
  const auto selected = [](bool tied) {
    const auto open = plan::parse_open_job(
        job_text(tied, "[selection]\npartitions = 2\npipelines_per_cell = 1\n" + kTimes),
        "job.toml");
    EXPECT_TRUE(open) << open.error().text();
    const auto job = geo::selection_of(*open);
    EXPECT_TRUE(job) << job.error().text();
    return geo::select_datacenters(job->setting)->rows.front().total().value;
  };
  EXPECT_NEAR(selected(true) - selected(false), 0.013072, 1e-12);
  // The search over datacenters, against its winner as a Plan.
  const auto open = plan::parse_open_job(job_text(true, ""), "job.toml");
  const auto found = geo::search_mixed(*open, {.top = 1});
  ASSERT_TRUE(found) << found.error().text();
  const geo::MixedPlan& best = found->top.front();
  const auto again =
      cost::predict_plan(*cost::make_plan(geo::with_plan(open->job, best)), "job.toml");
  EXPECT_NEAR(best.time.iteration.value, again->time.iteration.value, 1e-12);
}

// Without a link between the ends nothing is sent, and a note says so.
TEST(TiedEnds, AreLeftOutWhereNoLinkJoinsThem) {
  plan::Plan plan = plan_of(true, kTimes);
  EXPECT_EQ(plan.other_end(0), 1);
  plan.cluster.wan.clear();
  EXPECT_FALSE(plan.other_end(0));
  EXPECT_NE(ledger::note_on_tied_ends(plan).find("which no WAN link joins"), std::string::npos);
}

}  // namespace
}  // namespace tombolo
