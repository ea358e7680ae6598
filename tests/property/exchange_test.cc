// Gradients between datacenters: the simulator against the closed forms of the law
// gradient-exchange, and against bounds that hold of any layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.h"
#include "predict/cost/exchange_time.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "predict/sim/trace_check.h"
#include "spec/plan/gradient_groups.h"
#include "spec/plan/job.h"
#include "support/seeds.h"
#include "support/two_replicas.h"

namespace tombolo {
namespace {

// One replica in each of two datacenters; every layer is a group of its own where it is above the
// floor (hidden = 1024 makes layers of 50 MB), and embedding and head are small.
struct Pair {
  int layers = 4, hidden = 1024, microbatches = 2, latency_ms = 20, mbps = 1000;
  double forward_ms = 10, backward_ms = 20, update_ms = 4;
  bool overlap = true;
  const char* order = "deadline";
};

plan::Plan plan_of(const Pair& pair) {
  const std::string text = fmt::format(
      "[model]\nlayers = {}\nhidden = {}\nheads = 8\nvocabulary = 8\nsequence = 64\n"
      "positions = \"rope\"\n"
      "[[cluster.datacenter]]\nname = \"lab\"\ndevice = \"h100-80g\"\n"
      "scale_out = {{ bandwidth = \"400 Gbps\", latency = \"5 us\" }}\n"
      "[[cluster.datacenter]]\nname = \"cloud\"\ndevice = \"h100-80g\"\n"
      "scale_out = {{ bandwidth = \"400 Gbps\", latency = \"5 us\" }}\n"
      "[[cluster.wan]]\nbetween = [\"lab\", \"cloud\"]\none_way_latency = \"{} ms\"\n"
      "node_pair_limit = \"{} Mbps\"\nconnections = 64\n"
      "[training]\nglobal_batch = {}\n[parallelism]\npipeline = 1\ndata = 2\n"
      "datacenter_per_replica = [\"lab\", \"cloud\"]\n[exchange]\noverlap = {}\norder = \"{}\"\n"
      "[stage_times]\nforward = \"{} ms\"\nbackward = \"{} ms\"\n",
      pair.layers, pair.hidden, pair.latency_ms, pair.mbps, 2 * pair.microbatches, pair.overlap,
      pair.order, pair.forward_ms, pair.backward_ms);
  auto plan = plan::parse_job(text, "job.toml").and_then([](const plan::Job& job) {
    return cost::make_plan(job);
  });
  CHECK(plan, "{}", plan.error().text());
  plan->stages[0].cost.update = Seconds{pair.update_ms * 1e-3};
  return *plan;
}

cost::TwoReplicas replicas_of(const plan::Plan& plan) {
  const plan::Channel channel = plan::expected_channel(plan, 0, 1);
  return {.layers = plan.model.layers,
          .microbatches = plan.microbatches(),
          .forward = plan.stages[0].cost.forward,
          .backward = plan.stages[0].cost.backward,
          .update = plan.stages[0].cost.update,
          .serialisation = channel.serialisation(plan.stages[0].gradients),
          .latency = channel.latency};
}

void expect_sound(const plan::Plan& plan, const trace::Trace& trace) {
  const Result<sim::Check> check = sim::check_trace(plan, trace);
  ASSERT_TRUE(check) << check.error().text();
  for (const sim::Violation& violation : check->violations) ADD_FAILURE() << violation.text;
}

// Whole nanoseconds at each of a handful of roundings.
constexpr double kRoundings = 1e-7;

// Whether rank 0 computes for an iteration before its updates for the one before are over.
bool begins_beside_an_update(const trace::Trace& trace) {
  std::map<int64_t, SimTime> begun, over;
  for (const trace::Interval& each : trace.intervals) {
    if (each.rank != 0 || each.lane != trace::Lane::kCompute) continue;
    const bool update = each.action.kind == action::ActionKind::kUpdate;
    SimTime& time = (update ? over : begun).try_emplace(each.iteration, each.start).first->second;
    time = update ? std::max(time, each.end) : std::min(time, each.start);
  }
  return std::any_of(over.begin(), over.end(), [&](const auto& entry) {
    const auto next = begun.find(entry.first + 1);
    return next != begun.end() && next->second < entry.second;
  });
}

TEST(Exchange, InTurnIsTheClosedForm) {
  for (uint64_t seed = 0; seed < seeds(50, 500); ++seed) {
    Random random(seed + 19'000);
    const auto below = [&](uint64_t n) { return static_cast<int>(random.below(n)); };
    Pair pair{.overlap = false};
    pair.layers = 1 + below(6);
    pair.hidden = 64 << below(4);
    pair.microbatches = 1 + below(4);
    pair.latency_ms = below(60);
    pair.mbps = 50 << below(6);
    pair.forward_ms = 1 + below(50);
    pair.backward_ms = 1 + below(100);
    SCOPED_TRACE(seed);
    const plan::Plan plan = plan_of(pair);
    const sim::Simulation answer = *sim::simulate(plan);
    EXPECT_NEAR(seconds(answer.iteration).value, cost::period_in_turn(replicas_of(plan)).value,
                kRoundings);
    expect_sound(plan, answer.trace);
    if (HasFailure()) return;
  }
}

// Layers below the floor are one group with all else: overlap has nothing to begin earlier with.
TEST(Exchange, OneGroupIsTheClosedFormToo) {
  const plan::Plan plan = plan_of({.layers = 2, .hidden = 64});
  ASSERT_EQ(plan::gradient_groups(plan, 0).size(), 1u);
  EXPECT_NEAR(seconds(sim::simulate(plan)->iteration).value,
              cost::period_in_turn(replicas_of(plan)).value, kRoundings);
}

// Embedding and head of 8 tokens join their neighbouring layers, and make those 1e-3 larger and
// slower: the closed form is of equal layers.
TEST(Exchange, ABusyLinkIsTheClosedForm) {
  for (const int layers : {2, 3, 4, 8}) {
    for (const int microbatches : {1, 4}) {
      for (const int mbps : {100, 400}) {
        const plan::Plan plan =
            plan_of({.layers = layers, .microbatches = microbatches, .mbps = mbps});
        SCOPED_TRACE(fmt::format("{} layers, {} Mbps", layers, mbps));
        ASSERT_EQ(std::ssize(plan::gradient_groups(plan, 0)), layers);
        const sim::Simulation answer = *sim::simulate(plan);
        const double wanted = cost::period_of_a_busy_link(replicas_of(plan)).value;
        EXPECT_NEAR(seconds(answer.iteration).value / wanted, 1, 2e-3);
        EXPECT_EQ(begins_beside_an_update(answer.trace), layers > 2);
        expect_sound(plan, answer.trace);
      }
    }
  }
}

// First come, first served: the first layer comes last, and the whole forward pass behind it.
TEST(Exchange, ABusyLinkIsTheClosedFormInTheOtherOrderToo) {
  for (const int layers : {2, 3, 4, 8}) {
    for (const int mbps : {100, 400}) {
      const plan::Plan plan = plan_of({.layers = layers, .mbps = mbps, .order = "first-come"});
      SCOPED_TRACE(fmt::format("{} layers, {} Mbps", layers, mbps));
      const sim::Simulation answer = *sim::simulate(plan);
      const double wanted = cost::period_first_come(replicas_of(plan)).value;
      EXPECT_NEAR(seconds(answer.iteration).value / wanted, 1, 2e-3);
      expect_sound(plan, answer.trace);
    }
  }
}

// Whatever the layers: no shorter than what must be computed or sent, no longer than in turn.
TEST(Exchange, OverlapLiesBetweenItsBounds) {
  for (uint64_t seed = 0; seed < seeds(100, 1000); ++seed) {
    Random random(seed + 23'000);
    const auto below = [&](uint64_t n) { return static_cast<int>(random.below(n)); };
    Pair pair;
    pair.layers = 1 + below(8);
    pair.hidden = 256 << below(3);
    pair.microbatches = 1 + below(4);
    pair.latency_ms = below(60);
    pair.mbps = 50 << below(9);
    pair.forward_ms = 1 + below(200);
    pair.backward_ms = 1 + below(400);
    pair.update_ms = below(20);
    if (below(2) == 0) pair.order = "first-come";
    SCOPED_TRACE(seed);
    const plan::Plan plan = plan_of(pair);
    const cost::TwoReplicas what = replicas_of(plan);
    const sim::Simulation answer = *sim::simulate(plan);
    const double period = seconds(answer.iteration).value;
    const Seconds work = real(what.microbatches) * (what.forward + what.backward) + what.update;
    EXPECT_GE(period, std::max(work, what.serialisation).value - kRoundings);
    EXPECT_LE(period, cost::period_in_turn(what).value + kRoundings);
    expect_sound(plan, answer.trace);
    if (HasFailure()) return;
  }
}

// A rank's time is computing, waiting and idling, and waits for gradients are among the waits.
TEST(Exchange, TheBreakdownOfPeriodsAddsUp) {
  const plan::Plan plan = plan_of({.mbps = 100});
  const sim::Simulation answer = *sim::simulate(plan, {.iterations = 6});
  const auto times = trace::iteration_times(answer.trace);
  ASSERT_EQ(times.size(), 6u);
  for (const trace::RankParts& row : answer.breakdown.rows) {
    const trace::IterationTime& time = times[static_cast<size_t>(row.iteration - 1)];
    EXPECT_EQ(row.parts.total(), time.end - time.start);
    EXPECT_LE(row.exposed_exchange, row.parts.exposed_communication);
    if (row.iteration < 2 || row.iteration > 5) continue;
    // Two forward and two backward passes, and the update.
    EXPECT_EQ(row.parts.compute, SimDuration{64'000'000});
    EXPECT_EQ(row.exposed_exchange, row.parts.exposed_communication);
  }
}

}  // namespace
}  // namespace tombolo
