// A line whose rate changes, and a density that follows it, in virtual time.
//
// Two datacenters, a pipeline of one stage in each, passes of 100 ms together, 1 ms of latency. The model is so
// small that all of its gradients are one group: an update leaves when the backward pass is over. The line's
// rate is stated by what the first update takes on it.
#include "predict/sim/density_steering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "predict/sim/simulate.h"
#include "spec/plan/job.h"
#include "spec/schedule/exchange_graph.h"
#include "support/test_times.h"

namespace tombolo::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

plan::Plan plan_of(const std::string& exchange, BytesPerSecond line = 1_Mbps) {
  const std::string text = fmt::format(R"(
    [model]
    layers = 1
    hidden = 64
    heads = 4
    vocabulary = 256
    sequence = 64
    [[cluster.datacenter]]
    name = "lab"
    device = "emulated:a100-80g"
    [[cluster.datacenter]]
    name = "cloud"
    device = "emulated:a100-80g"
    [[cluster.wan]]
    between = ["lab", "cloud"]
    one_way_latency = "1 ms"
    node_pair_limit = "{} bps"
    [training]
    global_batch = 2
    precision = "fp32"
    [parallelism]
    pipeline = 1
    data = 2
    datacenter_per_replica = ["lab", "cloud"]
    [stage_times]
    forward = "40 ms"
    backward = "60 ms"
    [exchange]
    {}
  )",
                                       line.value * 8, exchange);
  const auto job = plan::parse_job(text, "job.toml");
  EXPECT_TRUE(job) << job.error().text();
  return *plan::lay_out(*job);
}

constexpr const char* kAuto = "mode = \"sparse\"\ndensity = 0.02\ndensity_range = [0.002, 0.05]";

// Of one update in the first iteration.
Bytes update_bytes(const plan::Plan& plan) {
  const schedule::detail::StageExchange exchange = schedule::detail::exchange_of(plan, 0, 0);
  CHECK(exchange.groups.size() == 1, "{} groups", exchange.groups.size());
  const auto& message = exchange.groups[0].exchange.rounds.at(0).at(0);
  return Bytes{static_cast<double>(schedule::detail::message_bytes(exchange, message, 1))};
}

struct Part {
  SimDuration start;
  SimDuration takes;  // what a message would take at this rate
};
cluster::RateTrace trace_of(Bytes message, const std::vector<Part>& parts) {
  std::vector<cluster::RateTrace::Step> steps;
  for (const Part& part : parts) steps.push_back({part.start, message / seconds(part.takes)});
  return *cluster::RateTrace::make(std::move(steps), parts.back().start + ms(1'000'000));
}

Simulation simulated(const plan::Plan& plan, int64_t iterations, cluster::RateTrace rates) {
  const auto out = simulate(
      plan, {.iterations = iterations, .rates = {std::move(rates)}, .steers_density = true});
  EXPECT_TRUE(out) << out.error().text();
  return *out;
}

// In whole microseconds: the last byte of a flow leaves at the next nanosecond.
std::vector<int64_t> starts_us(const Simulation& simulation, int64_t first, int64_t last) {
  std::vector<int64_t> out;
  for (const trace::IterationTime& time : trace::iteration_times(simulation.trace)) {
    if (time.iteration >= first && time.iteration <= last)
      out.push_back((time.start.ns + 500) / 1000);
  }
  return out;
}

// With "auto" on a line that has room for nothing else than the first density, too.
TEST(RatesOverTime, ATraceThatStaysIsThePlainSimulation) {
  const BytesPerSecond line = update_bytes(plan_of(kAuto)) / 0.09_s;
  for (const char* exchange : {"mode = \"dense\"", "mode = \"sparse\"\ndensity = 0.02", kAuto,
                               "mode = \"sparse\"\nstaleness = 0", "mode = \"local\"\nsteps = 3"}) {
    const plan::Plan plan = plan_of(exchange, line);
    const Result<Simulation> plain = simulate(plan, {.iterations = 12});
    ASSERT_TRUE(plain);
    const Simulation over_time =
        simulated(plan, 12, *cluster::RateTrace::make({{{}, line}}, ms(1000)));
    EXPECT_TRUE(plain->trace.intervals == over_time.trace.intervals) << exchange;
    EXPECT_EQ(plain->fingerprint, over_time.fingerprint) << exchange;
    EXPECT_EQ(over_time.decisions.size(), 0U) << exchange;
  }
}

// All gradients take 200 ms, and from 550 ms on 400.
//   iteration 1: 0 to 100; its gradients leave then, and are there at 301
//   iteration 2: 301 to 401; 149 of 200 ms are over at 550, and the other 51 take 102: 652, there at 653
//   iteration 3: 653 to 753; 400 ms more: there at 1154
TEST(RatesOverTime, DenseGradientsTakeWhatTheLineLetsThem) {
  const plan::Plan plan = plan_of("mode = \"dense\"", 1_Gbps);
  const Simulation out =
      simulated(plan, 5, trace_of(update_bytes(plan), {{ms(0), ms(200)}, {ms(550), ms(400)}}));
  EXPECT_THAT(starts_us(out, 1, 4), ElementsAre(0, 301'000, 653'000, 1'154'000));
  EXPECT_TRUE(out.densities.empty());
}

// The trace is above and below what the cluster says, which does not count then.
TEST(RatesOverTime, TheTraceCountsInsteadOfTheNodePair) {
  const plan::Plan slow = plan_of("mode = \"dense\"", 10_Mbps),
                   fast = plan_of("mode = \"dense\"", 1_Gbps);
  const cluster::RateTrace trace =
      trace_of(update_bytes(slow), {{ms(0), ms(200)}, {ms(550), ms(400)}});
  EXPECT_TRUE(simulated(slow, 5, trace).trace.intervals ==
              simulated(fast, 5, trace).trace.intervals);
}

// Where a line carries nothing for a while, messages wait.
TEST(RatesOverTime, AnOutageDelaysWhatIsUnderWay) {
  const plan::Plan plan = plan_of("mode = \"dense\"");
  const Bytes bytes = update_bytes(plan);
  const BytesPerSecond rate = bytes / 0.2_s;
  const auto trace =
      cluster::RateTrace::make({{ms(0), rate}, {ms(200), {}}, {ms(700), rate}}, ms(9000));
  // 100 of 200 ms are over at 200; the rest from 700 on.
  EXPECT_THAT(starts_us(simulated(plan, 4, *trace), 1, 2), ElementsAre(0, 801'000));
}

// An update takes 90 ms of the 100 that it can hide behind, and from 10.095 s on, when the line is idle, 180.
//
// Iteration i waits for update i - 2. Update 101 leaves at 10.1 and is there at 10.281, so that iteration 103
// begins then instead of at 10.2, and ends at 10.381. Its report is the first with something of the slower line:
// it waited 81 ms, more than half of what it computes, and 81 + 100 ms bound the rate:
//   0.9 * 100 ms * 0.02 / 181 ms = 0.00994...   two digits of it: 0.0099, from iteration 106 on
// Each of updates 102 to 105 takes 180 ms behind the one before; 106 takes 89 behind 105, from 11.0 on, and is
// there before iteration 107 ends at 11.101. That report has two updates of different densities and tells nothing of
// the bytes of one: the first that does is that of 108.
TEST(DensitySteering, AStepDownByHand) {
  const plan::Plan plan = plan_of(kAuto);
  const Simulation out =
      simulated(plan, 160, trace_of(update_bytes(plan), {{ms(0), ms(90)}, {ms(10'095), ms(180)}}));
  EXPECT_THAT(starts_us(out, 101, 109),
              ElementsAre(10'000'000, 10'100'000, 10'281'000, 10'461'000, 10'641'000, 10'821'000,
                          11'001'000, 11'101'000, 11'201'000));
  ASSERT_EQ(out.decisions.size(), 1U);
  EXPECT_EQ(out.decisions[0].first_iteration, 106);
  EXPECT_DOUBLE_EQ(out.decisions[0].density, 0.0099);
  EXPECT_NEAR(out.decisions[0].rate.value, update_bytes(plan).value / 0.181, 1e-3);
  EXPECT_THAT(out.decisions[0].reason, HasSubstr("an exchange takes 181 ms of the 100 ms"));
  EXPECT_EQ(out.densities.size(), 160U);
  EXPECT_DOUBLE_EQ(out.densities[104], 0.02);
  EXPECT_DOUBLE_EQ(out.densities[105], 0.0099);
}

// An update of 0.02 takes 90 ms, and from 1.095 s on 30. A quarter of the way up a report, the rate is 3 - 2 *
// 0.75^k times what it was after k of them, of which the wish must be above 1.2 of the density four times in a
// row: from the first report of the faster line on, that of iteration 12, in which update 11 came. So iteration
// 15 decides, for 18: the least of these wishes is the first, 0.02 * 1.5, which is also the most in one decision.
TEST(DensitySteering, AStepUpByHand) {
  const plan::Plan plan = plan_of(kAuto);
  const Simulation out =
      simulated(plan, 60, trace_of(update_bytes(plan), {{ms(0), ms(90)}, {ms(1095), ms(30)}}));
  ASSERT_GE(out.decisions.size(), 2U);
  EXPECT_EQ(out.decisions[0].first_iteration, 18);
  EXPECT_DOUBLE_EQ(out.decisions[0].density, 0.03);
  EXPECT_DOUBLE_EQ(out.decisions[1].density, 0.045) << "half more again";
  EXPECT_DOUBLE_EQ(out.densities.back(), 0.045) << "the highest, 0.05, is not a fifth more";
  for (const trace::IterationTime& time : trace::counting(trace::iteration_times(out.trace)))
    EXPECT_EQ(time.end - time.start, ms(100)) << "no iteration waited";
}

TEST(DensitySteering, MessagesCarryWhatTheDensityOfTheirIterationSays) {
  const plan::Plan plan = plan_of(kAuto);
  const Simulation out =
      simulated(plan, 60, trace_of(update_bytes(plan), {{ms(0), ms(90)}, {ms(1095), ms(30)}}));
  size_t messages = 0;
  for (const trace::Interval& interval : out.trace.intervals) {
    if (interval.lane != trace::Lane::kLink) continue;
    plan::Plan then = plan;
    then.exchange->density = out.densities[static_cast<size_t>(interval.iteration - 1)];
    EXPECT_EQ(static_cast<double>(interval.bytes), update_bytes(then).value) << interval.iteration;
    ++messages;
  }
  EXPECT_EQ(messages, 120U);
  size_t records = 0;
  for (const trace::Record& record : out.trace.records) {
    if (record.name != "density") continue;
    EXPECT_EQ(record.value, out.densities[static_cast<size_t>(record.iteration - 1)]);
    ++records;
  }
  EXPECT_EQ(records, 120U) << "of each rank in each iteration";
}

// Beside the densities stands why, once, what was believed of the line for it, and what it carried.
TEST(DensitySteering, TheTraceSaysWhy) {
  const plan::Plan plan = plan_of(kAuto);
  const double bytes = update_bytes(plan).value;
  const Simulation out =
      simulated(plan, 60, trace_of(Bytes{bytes}, {{ms(0), ms(90)}, {ms(1095), ms(30)}}));
  std::map<int64_t, std::string> reasons;
  std::map<int64_t, double> believed, carried;
  for (const trace::Record& record : out.trace.records) {
    EXPECT_EQ(record.rank, record.reason.empty() && record.name == "density" ? record.rank : 0);
    if (!record.reason.empty()) reasons[record.iteration] = record.reason;
    if (record.name == "line_rate") believed[record.iteration] = record.value;
    if (record.name == "line_capacity") carried[record.iteration] = record.value;
  }
  ASSERT_EQ(reasons.size(), out.decisions.size());
  ASSERT_EQ(reasons.size(), 2U);
  for (const tune::DensityDecision& each : out.decisions) {
    EXPECT_EQ(reasons[each.first_iteration], each.reason);
    EXPECT_DOUBLE_EQ(believed[each.first_iteration], each.rate.value);
  }
  EXPECT_EQ(believed.rbegin()->first, 60);
  EXPECT_EQ(carried.size(), 60U);
  EXPECT_NEAR(carried[1], bytes / 0.09, 1);
  // From 1 s to 1.1 s: 95 ms of the slow line, 5 of the fast one.
  EXPECT_NEAR(carried[11], (0.95 / 0.09 + 0.05 / 0.03) * bytes, bytes * 1e-3);
  EXPECT_NEAR(carried[59], bytes / 0.03, 1);
}

TEST(DensitySteering, ALineWithoutATraceSaysNothingOfWhatItCarries) {
  const auto out = simulate(plan_of(kAuto), {.iterations = 20, .steers_density = true});
  ASSERT_TRUE(out);
  for (const trace::Record& record : out->trace.records) EXPECT_NE(record.name, "line_capacity");
}

// The controller over a loop that shares no code with the simulator: which iteration begins when, what came in
// it, what it waited.
struct Oracle {
  std::vector<double> densities;
  std::vector<double> starts;  // s
};

Oracle expected(const plan::Plan& plan, const cluster::RateTrace& rates, int64_t iterations) {
  constexpr double kComputing = 0.1, kLatency = 0.001;
  tune::RateController controller({.density = 0.02});
  const auto n = static_cast<size_t>(iterations);
  Oracle out{.densities = std::vector<double>(n + 8, 0.02), .starts = {}};
  std::vector<double> departs, arrives, bytes;
  double end = 0, sent = 0;
  size_t told = 0;
  for (size_t i = 0; i < n; ++i) {
    const double start = std::max(end, i >= 2 ? arrives[i - 2] : 0);
    out.starts.push_back(start);
    const double waited = start - end;
    end = start + kComputing;
    tune::LineReport report{.iteration = static_cast<int64_t>(i) + 1,
                            .computing = Seconds{kComputing},
                            .waited = Seconds{waited}};
    // An iteration that waited begins with an arrival, and may end with the next: that one counts behind it.
    for (; told < arrives.size() && arrives[told] < end - 1e-6; ++told) {
      report.came += Bytes{bytes[told]};
      report.in_flight += Seconds{arrives[told] - departs[told] - kLatency};
    }
    if (const auto decision = controller.add(report)) {
      for (size_t k = static_cast<size_t>(decision->first_iteration) - 1; k < n; ++k)
        out.densities[k] = decision->density;
    }
    plan::Plan then = plan;
    then.exchange->density = out.densities[i];
    bytes.push_back(update_bytes(then).value);
    departs.push_back(std::max(end, sent));
    sent = seconds(rates.finish(round_to_ns(Seconds{departs[i]}), bytes[i])).value;
    arrives.push_back(sent + kLatency);
  }
  out.densities.resize(n);
  return out;
}

TEST(DensitySteering, AgreesWithALoopOfItsOwnOnLinesThatWander) {
  const plan::Plan plan = plan_of(kAuto);
  size_t decisions = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    std::vector<Part> parts;
    // Uneven, so that no step falls on the end of an update, and no wish on a threshold of the controller.
    SimDuration at;
    for (int i = 0; i < 12; ++i) {
      parts.push_back({at, {ms(40).ns + static_cast<int64_t>(random.below(260'000'000))}});
      at += {ms(1500).ns + static_cast<int64_t>(random.below(3'000'000'000))};
    }
    const cluster::RateTrace rates = trace_of(update_bytes(plan), parts);
    const Simulation ours = simulated(plan, 300, rates);
    const Oracle theirs = expected(plan, rates, 300);
    EXPECT_EQ(ours.densities, theirs.densities) << "seed " << seed;
    const auto times = trace::iteration_times(ours.trace);
    ASSERT_EQ(times.size(), theirs.starts.size());
    for (size_t i = 0; i < times.size(); ++i)
      EXPECT_NEAR(seconds(times[i].start - SimTime{}).value, theirs.starts[i], 1e-5) << seed;
    decisions += ours.decisions.size();
  }
  EXPECT_GT(decisions, 100U);
}

TEST(DensitySteering, TheSameInputsGiveTheSameTrace) {
  const plan::Plan plan = plan_of(kAuto);
  const cluster::RateTrace rates =
      trace_of(update_bytes(plan), {{ms(0), ms(90)}, {ms(1095), ms(30)}, {ms(4010), ms(200)}});
  const Simulation one = simulated(plan, 100, rates), two = simulated(plan, 100, rates);
  EXPECT_EQ(one.fingerprint, two.fingerprint);
  EXPECT_TRUE(one.trace == two.trace);
}

// Bytes of a prediction are whole, whatever an emulated run of the same Plan divides them by.
TEST(DensitySteering, KnowsNothingOfAByteScale) {
  plan::Plan plan = plan_of(kAuto);
  const cluster::RateTrace rates =
      trace_of(update_bytes(plan), {{ms(0), ms(90)}, {ms(1095), ms(180)}});
  const Simulation whole = simulated(plan, 40, rates);
  plan.run.byte_scale = 10;
  const Simulation divided = simulated(plan, 40, rates);
  ASSERT_FALSE(whole.decisions.empty());
  ASSERT_EQ(whole.decisions.size(), divided.decisions.size());
  EXPECT_EQ(whole.decisions[0].reason, divided.decisions[0].reason);
}

// Only where a run would: not of a density that is a number, and not where it is not asked for.
TEST(DensitySteering, OfAPlanWhoseDensityChanges) {
  const plan::Plan fixed = plan_of("mode = \"sparse\"\ndensity = 0.02");
  EXPECT_FALSE(density_is_steered(fixed, {.steers_density = true}));
  EXPECT_TRUE(density_is_steered(plan_of(kAuto), {.steers_density = true}));
  EXPECT_FALSE(density_is_steered(plan_of(kAuto), {}));
  plan::Plan together = plan_of(kAuto);
  for (layout::Placement& rank : together.ranks) rank.datacenter = "lab";
  EXPECT_FALSE(density_is_steered(together, {.steers_density = true}));
}

TEST(RatesOverTime, AreRefusedWhereSomethingElseSaysHowLongTransfersTake) {
  plan::Plan plan = plan_of("mode = \"dense\"");
  const cluster::RateTrace trace = *cluster::RateTrace::make({{{}, 1_Mbps}}, ms(1000));
  plan.measured_links.push_back(
      {.between = {"cloud", "lab"}, .one_way_latency = 1_ms, .rate = 1_Mbps});
  const auto measured = simulate(plan, {.rates = {trace}});
  ASSERT_FALSE(measured);
  EXPECT_THAT(measured.error().text(), HasSubstr("the hardware file has a measured rate"));
  plan.measured_links.clear();
  plan.wan_transfer = 7_ms;
  const auto stated = simulate(plan, {.rates = {trace}});
  ASSERT_FALSE(stated);
  EXPECT_THAT(stated.error().text(), HasSubstr("rate_trace of lab - cloud: [stage_times] says"));
}

}  // namespace
}  // namespace tombolo::sim
