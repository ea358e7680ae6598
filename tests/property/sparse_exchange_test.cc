// Sparse updates between datacenters: the simulator against the closed forms of the law
// gradient-exchange, whatever the layout.
#include "spec/schedule/sparse_exchange.h"

#include <gtest/gtest.h>

#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "predict/sim/trace_check.h"
#include "spec/plan/gradient_groups.h"
#include "spec/plan/job.h"

namespace tombolo {
namespace {

// One replica in each of two datacenters, or as `places` says; passes of 10 and 20 ms, an update of
// 4 ms, one way 20 ms.
struct Thin {
  int layers = 4, hidden = 1024, microbatches = 2;
  double mbps = 100;
  std::string exchange = "staleness = 1\n";
  std::string places = "\"lab\", \"cloud\"";
  int replicas = 2;
};

plan::Plan thin_plan(const Thin& line) {
  const std::string text = fmt::format(
      "[model]\nlayers = {}\nhidden = {}\nheads = 8\nvocabulary = 8\nsequence = 64\n"
      "positions = \"rope\"\n"
      "[[cluster.datacenter]]\nname = \"lab\"\ndevice = \"h100-80g\"\nnodes = 3\n"
      "scale_out = {{ bandwidth = \"400 Gbps\", latency = \"5 us\" }}\n"
      "[[cluster.datacenter]]\nname = \"cloud\"\ndevice = \"h100-80g\"\nnodes = 3\n"
      "scale_out = {{ bandwidth = \"400 Gbps\", latency = \"5 us\" }}\n"
      "[[cluster.wan]]\nbetween = [\"lab\", \"cloud\"]\none_way_latency = \"20 ms\"\n"
      "node_pair_limit = \"{} Mbps\"\nconnections = 64\n"
      "[training]\nglobal_batch = {}\n[parallelism]\npipeline = 1\ndata = {}\n"
      "datacenter_per_replica = [{}]\n[exchange]\nmode = \"sparse\"\n{}"
      "[stage_times]\nforward = \"10 ms\"\nbackward = \"20 ms\"\n",
      line.layers, line.hidden, line.mbps, line.replicas * line.microbatches, line.replicas,
      line.places, line.exchange);
  auto plan = plan::parse_job(text, "job.toml").and_then([](const plan::Job& job) {
    return cost::make_plan(job);
  });
  CHECK(plan, "{}", plan.error().text());
  plan->stages[0].cost.update = 4_ms;
  return *plan;
}

// Over as many iterations as the simulator takes by itself.
double period_of(const plan::Plan& plan, int64_t iterations = 1) {
  const auto answer = sim::simulate(plan, {.iterations = iterations});
  CHECK(answer, "{}", answer.error().text());
  const Result<sim::Check> check = sim::check_trace(plan, answer->trace);
  CHECK(check, "{}", check.error().text());
  for (const sim::Violation& violation : check->violations) ADD_FAILURE() << violation.text;
  return seconds(answer->iteration).value;
}

double update_bytes(const plan::Plan& plan) {
  double sum = 0;
  for (const plan::GradientGroup& group : plan::gradient_groups(plan, 0))
    sum += schedule::expected_update_bytes(
        *plan.exchange, static_cast<int64_t>(group.bytes.value / plan::gradient_bytes(plan)));
  return sum;
}

// 50 million numbers: 1 MB an iteration, 8 ms of 1 Gbps. A pass waits for nothing.
TEST(ThinLine, WithStalenessAPeriodIsItsComputation) {
  for (const int microbatches : {1, 2, 5}) {
    const plan::Plan plan = thin_plan({.microbatches = microbatches, .mbps = 1000});
    EXPECT_NEAR(period_of(plan), microbatches * 30e-3 + 4e-3, 1e-7);
  }
}

// One group: computation, its update on the line, the latency, the update.
TEST(ThinLine, WithoutStalenessOneGroupIsSeenWhole) {
  for (const char* values : {"bf16", "int8", "int4", "2bit"}) {
    const plan::Plan plan = thin_plan(
        {.layers = 2,
         .hidden = 64,
         .mbps = 1,
         .exchange = fmt::format("staleness = 0\ndensity = 0.05\nvalues = \"{}\"\n", values)});
    ASSERT_EQ(plan::gradient_groups(plan, 0).size(), 1u);
    EXPECT_NEAR(period_of(plan), 60e-3 + update_bytes(plan) * 8e-6 + 20e-3 + 4e-3, 1e-5) << values;
  }
}

// Bound by the line, whatever the staleness: as long as its bytes take.
TEST(ThinLine, AThinLineIsBusyAllTheTime) {
  for (const int microbatches : {1, 2}) {
    const plan::Plan plan = thin_plan({.microbatches = microbatches, .mbps = 10});
    EXPECT_NEAR(period_of(plan) / (update_bytes(plan) * 8e-7), 1, 2e-2);
  }
}

// Computation runs ahead of a line that carries less than it makes; the first iterations do not count.
TEST(ThinLine, APeriodIsThatOfLongRuns) {
  for (const double mbps : {10, 50, 120, 200, 1000}) {
    for (const int layers : {2, 4, 6}) {
      const plan::Plan plan = thin_plan({.layers = layers, .mbps = mbps});
      EXPECT_NEAR(period_of(plan) / period_of(plan, 80), 1, 1e-6) << mbps << ", " << layers;
    }
  }
}

// Leaders take turns, and inside a datacenter gradients are summed: sound, and hidden.
TEST(ThinLine, SeveralReplicasInEachAreSound) {
  const plan::Plan plan = thin_plan(
      {.mbps = 1000, .places = "\"lab\", \"cloud\", \"lab\", \"cloud\", \"cloud\"", .replicas = 5});
  EXPECT_NEAR(period_of(plan), 64e-3, 1e-3);
}

}  // namespace
}  // namespace tombolo
