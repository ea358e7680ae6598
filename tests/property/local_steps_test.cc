// Local steps between datacenters: the simulator against closed forms of a period, and its Traces against the
// rules that hold of all.
#include "spec/schedule/local_steps.h"

#include <gtest/gtest.h>

#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "predict/sim/trace_check.h"
#include "spec/plan/gradient_groups.h"
#include "spec/plan/job.h"
#include "spec/schedule/sparse_exchange.h"

namespace tombolo {
namespace {

// Passes of 10 and 20 ms, twice an iteration, an update of 4 ms; one way 20 ms.
plan::Plan local_plan(const std::string& exchange, double mbps,
                      const std::string& places = "\"lab\", \"cloud\"", int replicas = 2,
                      int stages = 1) {
  const std::string text = fmt::format(
      "[model]\nlayers = 4\nhidden = 256\nheads = 8\nvocabulary = 8\nsequence = 64\n"
      "positions = \"rope\"\n"
      "[[cluster.datacenter]]\nname = \"lab\"\ndevice = \"h100-80g\"\nnodes = 3\n"
      "scale_out = {{ bandwidth = \"400 Gbps\", latency = \"5 us\" }}\n"
      "[[cluster.datacenter]]\nname = \"cloud\"\ndevice = \"h100-80g\"\nnodes = 3\n"
      "scale_out = {{ bandwidth = \"400 Gbps\", latency = \"5 us\" }}\n"
      "[[cluster.wan]]\nbetween = [\"lab\", \"cloud\"]\none_way_latency = \"20 ms\"\n"
      "node_pair_limit = \"{} Mbps\"\nconnections = 64\n"
      "[training]\nglobal_batch = {}\n[parallelism]\npipeline = {}\ndata = {}\n"
      "datacenter_per_replica = [{}]\n[exchange]\n{}"
      "[stage_times]\nforward = \"10 ms\"\nbackward = \"20 ms\"\n",
      mbps, replicas * 2, stages, replicas, places, exchange);
  auto plan = plan::parse_job(text, "job.toml").and_then([](const plan::Job& job) {
    return cost::make_plan(job);
  });
  CHECK(plan, "{}", plan.error().text());
  plan->stages[0].cost.update = 4_ms;
  return *plan;
}

double mean_period(const plan::Plan& plan, int64_t iterations = 1) {
  const auto answer = sim::simulate(plan, {.iterations = iterations});
  CHECK(answer, "{}", answer.error().text());
  const Result<sim::Check> check = sim::check_trace(plan, answer->trace);
  CHECK(check, "{}", check.error().text());
  for (const sim::Violation& violation : check->violations) ADD_FAILURE() << violation.text;
  return seconds(answer->iteration).value;
}

double outer_bytes(const plan::Plan& plan) {
  double sum = 0;
  for (const plan::GradientGroup& group : plan::gradient_groups(plan, 0))
    sum += schedule::expected_update_bytes(
        *plan.exchange, static_cast<int64_t>(group.bytes.value / plan::gradient_bytes(plan)));
  return sum;
}

// Of H steps the last one waits for all bytes and the latency, less what the passes hide: of the groups that
// the first forward pass, of 10 ms, needs later, and of the update, of 4 ms, which goes group by group.
TEST(LocalStepsSimulated, WithoutDelayAnOuterStepIsSeenOnceInHSteps) {
  for (const char* values : {"fp32", "bf16", "int4"}) {
    const plan::Plan plan =
        local_plan(fmt::format("mode = \"local\"\nsteps = 5\nvalues = \"{}\"\n", values), 100);
    const double outer = outer_bytes(plan) * 8e-8 + 20e-3;
    EXPECT_NEAR(5 * mean_period(plan), 5 * 64e-3 + outer, 14e-3) << values;
  }
}

TEST(LocalStepsSimulated, ADelayHidesWhatTheLineHasTimeFor) {
  for (const char* how : {"delay = 9\n", "fragments = 2\n", "fragments = 3\ndelay = 7\n"}) {
    const plan::Plan plan = local_plan(fmt::format("mode = \"local\"\nsteps = 10\n{}", how), 100);
    EXPECT_NEAR(mean_period(plan), 64e-3, 1e-4) << how;
  }
}

// H = 6, two fragments: one begins after steps 3, 9, ..., the other after 6, 12, ..., and each is waited for
// two steps of 64 ms later, when the line is free again. So a turn takes six steps, and twice what an update
// and the latency take beyond two steps; less what of the first forward pass, of 10 ms, needs no group yet.
// The first turn has one of these waits, and no number of iterations changes the answer.
TEST(LocalStepsSimulated, EveryFragmentIsWaitedForInEveryTurn) {
  const plan::Plan plan = local_plan("mode = \"local\"\nsteps = 6\nfragments = 2\ndelay = 2\n", 10);
  const double waits = outer_bytes(plan) * 8e-7 + 2 * 20e-3 - 4 * 64e-3;
  ASSERT_GT(waits, 6 * 64e-3);
  EXPECT_NEAR(6 * mean_period(plan), 6 * 64e-3 + waits, 2 * 10e-3);
  EXPECT_NEAR(mean_period(plan, 122), mean_period(plan), 1e-8);
}

// Each fragment waits for the one before it: the first turn that is like all others is the third.
TEST(LocalStepsSimulated, FragmentsThatWaitForOneAnotherTakeThreeTurns) {
  const plan::Plan plan = local_plan("mode = \"local\"\nsteps = 6\nfragments = 2\ndelay = 5\n", 10);
  EXPECT_NEAR(mean_period(plan, 122), mean_period(plan), 1e-8);
}

// Bound by the line: as long as its bytes take.
TEST(LocalStepsSimulated, AThinLineIsBusyAllTheTime) {
  const plan::Plan plan = local_plan("mode = \"local\"\nsteps = 4\nfragments = 2\ndelay = 3\n", 10);
  EXPECT_NEAR(4 * mean_period(plan) / (outer_bytes(plan) * 8e-7), 1, 3e-2);
}

TEST(LocalStepsSimulated, SeveralReplicasInEachAreSound) {
  for (const char* mode : {"local", "sparse-local"}) {
    const plan::Plan plan =
        local_plan(fmt::format("mode = \"{}\"\nsteps = 3\nfragments = 3\n", mode), 10'000,
                   "\"lab\", \"cloud\", \"lab\", \"cloud\", \"cloud\"", 5);
    EXPECT_NEAR(mean_period(plan), 64e-3, 2e-3) << mode;
  }
}

// An outer step of the first stage begins where nothing else has a number, and ends two steps and more
// later: each rule holds of each interval all the same.
TEST(LocalStepsSimulated, PipelinesWithDelaysAreSound) {
  for (const char* how : {"steps = 4\ndelay = 3\n", "steps = 6\nfragments = 2\n",
                          "steps = 5\ndelay = 2\nblend = 0.0\n"}) {
    const plan::Plan plan =
        local_plan(fmt::format("mode = \"local\"\n{}", how), 10'000, "\"lab\", \"cloud\"", 2, 2);
    EXPECT_GT(mean_period(plan), 90e-3) << how;
  }
}

}  // namespace
}  // namespace tombolo
