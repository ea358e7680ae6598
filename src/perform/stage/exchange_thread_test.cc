// Whole runs of emulated ranks in two datacenters, in virtual time: every instant follows from the Plan. The
// synthetic gradients of each replica are checked when they are summed (emulated_groups.h).
#include "perform/exchange/exchange_thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/random.h"
#include "perform/kernels/emulated_kernels.h"
#include "perform/stage/perform.h"
#include "perform/state/checkpoint.h"
#include "spec/plan/gradient_groups.h"
#include "spec/plan/job.h"
#include "support/ocean_links.h"

namespace tombolo::stage {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Of layers of 1.2 MB, each of which is still a group of its own (plan::kGroupFloor): for tests where
// bits count, and not how long they travel.
constexpr int kNarrow = 160;
constexpr int64_t kOneMs = 1'000'000;

struct Labs {
  int pipelines = 2;  // half of them in each
  int stages = 1;
  int microbatches = 1;
  int steps = 4;
  int hidden = 208;
  std::string rate = "1 Gbps";
  std::string more = "[exchange]\noverlap = true\n";
};

// Four layers of 2.1 MB of gradients, and an embedding and a head that are joined with their neighbours; a
// forward of 40 ms and a backward of 80 ms on each stage.
plan::Plan plan_of(const Labs& labs) {
  std::string places;
  for (int i = 0; i < labs.pipelines; ++i)
    places += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", i < labs.pipelines / 2 ? "lab" : "cloud");
  std::string job = fmt::format(R"(
[model]
layers = 4
hidden = {}
heads = 4
ffn = {}
vocabulary = 64
sequence = 16
[training]
global_batch = {}
precision = "fp32"
[parallelism]
pipeline = {}
data = {}
datacenter_per_replica = [{}]
[run]
steps = {}
[stage_times]
forward = "40 ms"
backward = "80 ms"
{})",
                                labs.hidden, 4 * labs.hidden, labs.microbatches * labs.pipelines,
                                labs.stages, labs.pipelines, places, labs.steps, labs.more);
  for (const char* name : {"lab", "cloud"}) {
    job += fmt::format(
        "[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"emulated:a100-80g\"\n"
        "devices_per_node = {}\n",
        name, labs.stages * labs.pipelines / 2);
  }
  job += fmt::format(
      "[[cluster.wan]]\nbetween = [\"lab\", \"cloud\"]\none_way_latency = \"10 ms\"\n"
      "node_pair_limit = \"{}\"\n",
      labs.rate);
  const auto parsed = plan::parse_job(job, "/test/labs.toml");
  CHECK(parsed, "{}", parsed.error().text());
  auto plan = plan::lay_out(*parsed);
  CHECK(plan, "{}", plan.error().text());
  return std::move(*plan);
}

struct Outcome {
  std::vector<std::string> digests;         // by rank, at the end
  std::vector<kernels::NamedTensor> state;  // of all
  std::vector<trace::Trace> parts;          // by rank
  std::vector<Status> ends;
  std::vector<std::string> told;  // "0 before 1", "0 after 2", "0 report 2", ...
  std::map<std::pair<int32_t, int32_t>, int64_t> bytes;
  std::map<int32_t, std::vector<ExchangeReport>> exchanged;  // by rank
};

// `lost`: a rank that is gone after so long.
struct Loss {
  int32_t rank = 0;
  SimTime at;
};
struct Begin {
  std::vector<kernels::NamedTensor> state;
  int64_t first = 1;
};
using Orders = std::vector<exchange::DensitySchedule>;  // by rank
Outcome perform_in_ocean(const plan::Plan& plan, std::optional<Loss> loss = {},
                         const Begin& begin = {}, const Orders* orders = nullptr) {
  const auto schedule = schedule::build(plan);
  CHECK(schedule, "{}", schedule.error().text());
  ocean::Ocean ocean(1);
  ocean::OceanLinks links(
      ocean, [&](int32_t from, int32_t to) { return kernels::shape_between(plan, from, to); },
      {.order = plan.exchange.value_or(plan::Exchange{}).order_in_use()});
  Outcome out;
  out.parts.resize(plan.ranks.size());
  out.ends.resize(plan.ranks.size());
  out.digests.resize(plan.ranks.size());
  size_t done = 0;
  const SimTime origin = ocean.now();
  const auto live = [&](int32_t rank, ocean::Waters& waters) -> Status {
    ocean::OceanMessenger messenger(links, rank);
    kernels::EmulatedKernels kernels(plan, rank, waters, {.check_every_byte = true});
    if (!begin.state.empty()) TRY(kernels.load(kernels::source_of(begin.state)));
    TRY(kernels.join_replicas({.ranks = plan.replicas_of(plan.ranks[rank].stage),
                               .own = static_cast<size_t>(plan.ranks[rank].replica),
                               .messenger = &messenger,
                               .lie_apart = true}));
    const auto tell = [&, rank](const char* what, int64_t step) -> Status {
      out.told.push_back(fmt::format("{} {} {}", rank, what, step));
      return {};
    };
    const Hooks hooks{.before_update = [&](int64_t step) { return tell("before", step); },
                      .updated = [&](int64_t step) { return tell("updated", step); },
                      .iteration =
                          [&](const IterationReport& report) {
                            if (report.exchange) out.exchanged[rank].push_back(*report.exchange);
                            return tell("report", report.iteration);
                          }};
    out.parts[rank] = TRY(perform(plan, schedule->ranks[rank],
                                  {.rank = rank,
                                   .first_iteration = begin.first,
                                   .origin = origin,
                                   .density = orders ? &orders->at(rank) : nullptr},
                                  kernels, messenger, waters, hooks));
    out.digests[rank] = TRY(kernels.weights_digest());
    if (state::writes_shard(plan, rank)) {
      for (kernels::NamedTensor& each : TRY(kernels.save())) out.state.push_back(std::move(each));
    }
    return {};
  };
  for (const layout::Placement& place : plan.ranks) {
    ocean.start(place.rank, [&, rank = place.rank](ocean::Waters& waters) {
      out.ends[rank] = live(rank, waters);
      if (!out.ends[rank]) links.lose(rank);
      ++done;
      return 0;
    });
  }
  if (loss) ocean.at(origin + (loss->at - SimTime{}), [&] { links.lose(loss->rank); });
  CHECK(ocean.sail([&] { return done == plan.ranks.size(); }), "all wait for ever");
  out.bytes = links.bytes();
  return out;
}

std::vector<SimTime> starts_of(const trace::Trace& part, action::ActionKind kind) {
  std::vector<SimTime> starts;
  for (const trace::Interval& each : part.intervals) {
    if (each.action.kind == kind && (each.iteration > static_cast<int64_t>(starts.size())))
      starts.push_back(each.start);
  }
  return starts;
}

// From start to start, by iteration.
std::vector<int64_t> periods(const trace::Trace& part) {
  const auto starts = starts_of(part, action::ActionKind::kForward);
  std::vector<int64_t> out;
  for (size_t i = 1; i < starts.size(); ++i) out.push_back((starts[i] - starts[i - 1]).ns);
  return out;
}

double bytes_of_gradients(const plan::Plan& plan) { return plan.stages[0].gradients.value; }

TEST(Exchange, WithoutOverlapAnIterationIsComputationThenTheSum) {
  const plan::Plan plan = plan_of({.more = "[exchange]\noverlap = false\n"});
  const Outcome run = perform_in_ocean(plan);
  EXPECT_THAT(run.ends, Each(testing::Truly([](const Status& s) { return s.has_value(); })));
  // All bytes once over 1 Gbps, and 10 ms.
  const double expected = 120e6 + bytes_of_gradients(plan) * 8 + 10e6;
  for (const trace::Trace& part : run.parts)
    EXPECT_THAT(periods(part), Each(testing::Truly([&](int64_t ns) {
                  return std::abs(static_cast<double>(ns) - expected) < 1000;
                })));
  EXPECT_EQ(run.bytes.at({0, 1}), 4 * static_cast<int64_t>(bytes_of_gradients(plan)));
}

TEST(Exchange, OnAFastLinkOnlyTheLatencyOfTheLastGroupIsSeen) {
  const plan::Plan plan = plan_of({.rate = "1000 Gbps"});
  const Outcome run = perform_in_ocean(plan);
  EXPECT_EQ(run.bytes.at({0, 1}), 4 * static_cast<int64_t>(bytes_of_gradients(plan)));
  for (const int64_t period : periods(run.parts[0])) {
    EXPECT_GE(period, 130 * kOneMs);
    EXPECT_LT(period, 131 * kOneMs);
  }
}

// Bound by the link: while the group that is needed last comes, nothing else is left to be sent. So
// the link rests for the latency, that group's part of the forward pass and its part of the backward
// one.
TEST(Exchange, OnASlowLinkTheNextIterationBeginsWhileGradientsAreOnTheirWay) {
  const plan::Plan plan = plan_of({.rate = "200 Mbps"});
  const auto groups = plan::gradient_groups(plan, 0);
  const double last = 1 - groups.back().needed_at;
  const double expected = bytes_of_gradients(plan) * 8 / 0.2 + 10e6 + last * 120e6;
  const Outcome run = perform_in_ocean(plan);
  const auto found = periods(run.parts[0]);
  const double segment = 8.0 * ocean::OceanLinks::kSegment / 0.2;
  EXPECT_NEAR(static_cast<double>(found.back()), expected, 3 * segment);
  // Of an iteration, groups are summed in the order of need, but for those that had left before.
  std::vector<int64_t> exposed;
  for (const trace::Record& each : run.parts[0].records)
    if (each.name == "exposed_s") exposed.push_back(static_cast<int64_t>(each.value * 1e9));
  EXPECT_EQ(exposed.front(), 0);
  EXPECT_GT(exposed.back(), 100 * kOneMs);
}

TEST(Exchange, AnIterationIsReportedOnceItIsUpdatedAndUpdatedAfterItsCopy) {
  const Outcome run = perform_in_ocean(plan_of({.steps = 2, .rate = "200 Mbps"}));
  std::vector<std::string> of_rank;
  for (const std::string& each : run.told)
    if (each.starts_with("1 ")) of_rank.push_back(each);
  EXPECT_THAT(of_rank, ElementsAre("1 before 0", "1 updated 1", "1 report 1", "1 before 1",
                                   "1 updated 2", "1 report 2"));
}

// Two stages, four pipelines: two levels. Each sum is checked number by number.
TEST(Exchange, TwoLevelsOfTwoStagesSumWhatAllMadeUp) {
  const plan::Plan plan = plan_of({.pipelines = 4, .stages = 2, .microbatches = 3});
  const Outcome run = perform_in_ocean(plan);
  for (const Status& end : run.ends) EXPECT_TRUE(end) << end.error().text();
  const auto gradients = static_cast<int64_t>(bytes_of_gradients(plan));
  // Of stage 0 each sends half to its neighbour twice, and half over the WAN once, in 4 steps.
  EXPECT_NEAR(static_cast<double>(run.bytes.at({0, 1})), 4.0 * static_cast<double>(gradients), 64);
  EXPECT_NEAR(static_cast<double>(run.bytes.at({0, 2})), 2.0 * static_cast<double>(gradients), 64);
}

std::string sparse(const std::string& more = "") {
  return "[exchange]\nmode = \"sparse\"\ndensity = 0.01\n" + more;
}
std::vector<double> records(const trace::Trace& part, const std::string& name) {
  std::vector<double> out;
  for (const trace::Record& each : part.records)
    if (each.name == name) out.push_back(each.value);
  return out;
}

// Four replicas in two datacenters, one of them in two stages: all end with the same parameters, and
// what those lack of all that was made up lies in the residuals. The sum of noise over 4 replicas and
// 4 steps is given by another run of the same that sends everything.
TEST(SparseExchange, AllReplicasEndWithTheSameBits) {
  for (const char* how : {"staleness = 0\n", "staleness = 1\n", "freshness = \"fixed\"\n",
                          "values = \"2bit\"\n", "values = \"int8\"\n"}) {
    const plan::Plan plan = plan_of(
        {.pipelines = 4, .stages = 2, .microbatches = 3, .hidden = kNarrow, .more = sparse(how)});
    const Outcome run = perform_in_ocean(plan);
    for (const Status& end : run.ends) ASSERT_TRUE(end) << end.error().text();
    for (const layout::Placement& place : plan.ranks)
      EXPECT_EQ(run.digests[place.rank], run.digests[plan.rank_of(place.stage, 0)]) << how;
  }
}

// Per element, the parameters of a run and what its datacenters have not sent.
std::map<std::string, std::vector<double>> given_in(const Outcome& run) {
  std::map<std::string, std::vector<double>> sums;
  for (const kernels::NamedTensor& each : run.state) {
    const size_t at = each.name.find(".residual.");
    const bool is_residual = at != std::string::npos;
    if (each.dtype != "F32") continue;
    std::vector<double>& sum = sums[each.name.substr(0, at)];
    sum.resize(each.bytes.size() / sizeof(float));
    for (size_t i = 0; i < sum.size(); ++i) {
      float value = 0;
      std::memcpy(&value, each.bytes.data() + i * sizeof value, sizeof value);
      sum[i] += is_residual ? value : -value;
    }
  }
  return sums;
}

// Parameters and residuals hold all that was made up, whatever was sent of it and when.
TEST(SparseExchange, NoGradientIsLostAndNoneCountsTwice) {
  const auto run_with = [](const std::string& how) {
    return given_in(
        perform_in_ocean(plan_of({.pipelines = 4, .hidden = kNarrow, .more = sparse(how)})));
  };
  const auto all = run_with("staleness = 0\n");
  ASSERT_FALSE(all.empty());
  for (const char* how : {"staleness = 1\n", "values = \"int4\"\n", "freshness = \"fixed\"\n"}) {
    const auto some = run_with(how);
    for (const auto& [name, sum] : all) {
      double worst = 0;
      for (size_t i = 0; i < sum.size(); ++i)
        worst = std::max(worst, std::abs(sum[i] - some.at(name)[i]));
      EXPECT_LT(worst, 1e-4) << name << " " << how;
    }
  }
}

std::string changing(const std::string& more = "") {
  return "[exchange]\nmode = \"sparse\"\ndensity = 0.01\ndensity_range = [0.002, 0.1]\n" + more;
}

// Some ranks hear of a new density later than others, one of them not at all: leaders of one iteration then
// send updates of unlike sizes, and all replicas still make the same updates of them.
TEST(SparseExchange, ReplicasKeepTheSameBitsWhileTheDensityChanges) {
  for (const char* how : {"staleness = 0\n", "staleness = 1\n", "freshness = \"fixed\"\n",
                          "select = \"chunks\"\n", "values = \"2bit\"\n"}) {
    const plan::Plan plan = plan_of({.pipelines = 4,
                                     .stages = 2,
                                     .microbatches = 3,
                                     .steps = 8,
                                     .hidden = kNarrow,
                                     .more = changing(how)});
    Orders orders(plan.ranks.size());
    for (size_t rank = 0; rank + 1 < orders.size(); ++rank) {
      orders[rank].order(3 + static_cast<int64_t>(rank % 3), 0.05);
      orders[rank].order(6, 0.003);
    }
    const Outcome run = perform_in_ocean(plan, {}, {}, &orders);
    for (const Status& end : run.ends) ASSERT_TRUE(end) << end.error().text();
    for (const layout::Placement& place : plan.ranks)
      EXPECT_EQ(run.digests[place.rank], run.digests[plan.rank_of(place.stage, 0)]) << how;
    EXPECT_THAT(records(run.parts[0], "density"),
                ElementsAre(0.01, 0.01, 0.05, 0.05, 0.05, 0.003, 0.003, 0.003));
    EXPECT_THAT(records(run.parts.back(), "density"), Each(0.01));
  }
}

// Orders of any density for any iteration, other ones for each rank.
TEST(SparseExchange, ReplicasKeepTheSameBitsWhateverIsOrdered) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const plan::Plan plan =
        plan_of({.pipelines = 4,
                 .steps = 6,
                 .hidden = kNarrow,
                 .more = changing(random.below(2) == 0 ? "staleness = 0\n" : "")});
    Orders orders(plan.ranks.size());
    for (auto& each : orders) {
      for (uint64_t left = random.below(5); left > 0; --left) {
        const auto first = static_cast<int64_t>(1 + random.below(6));
        each.order(first, 0.002 + 0.0005 * static_cast<double>(random.below(200)));
      }
    }
    const Outcome run = perform_in_ocean(plan, {}, {}, &orders);
    for (const Status& end : run.ends) ASSERT_TRUE(end) << end.error().text();
    for (const layout::Placement& place : plan.ranks)
      EXPECT_EQ(run.digests[place.rank], run.digests[plan.rank_of(place.stage, 0)]);
  }
}

// What is kept back stays there when the density changes, and comes later: parameters and residuals hold all
// that was made up.
TEST(SparseExchange, NoGradientIsLostWhileTheDensityChanges) {
  const plan::Plan plan =
      plan_of({.pipelines = 4, .steps = 6, .hidden = kNarrow, .more = changing()});
  Orders orders(plan.ranks.size());
  for (auto& each : orders) {
    each.order(2, 0.08);
    each.order(4, 0.002);
  }
  const auto changed = given_in(perform_in_ocean(plan, {}, {}, &orders));
  const auto all = given_in(perform_in_ocean(plan));
  ASSERT_FALSE(all.empty());
  for (const auto& [name, sum] : all) {
    double worst = 0;
    for (size_t i = 0; i < sum.size(); ++i)
      worst = std::max(worst, std::abs(sum[i] - changed.at(name)[i]));
    EXPECT_LT(worst, 1e-4) << name;
  }
}

// 100 Mbps carry 12.5 MB/s: what came, over the time in which it came, is that but for the first segments of
// messages, which are not waited for here. And 120 ms of passes are what an iteration computes.
TEST(SparseExchange, ReportsShowTheRateOfTheLine) {
  const plan::Plan plan =
      plan_of({.steps = 6, .rate = "100 Mbps", .more = changing("staleness = 0\n")});
  const Outcome run = perform_in_ocean(plan);
  ASSERT_EQ(run.exchanged.size(), 2u);
  for (const auto& [rank, reports] : run.exchanged) {
    ASSERT_EQ(reports.size(), 6u);
    for (size_t i = 1; i < reports.size(); ++i) {
      const ExchangeReport& each = reports[i];
      EXPECT_NEAR(seconds(each.computing).value, 0.120, 0.002);
      EXPECT_GT(each.waited.ns, 0);
      EXPECT_NEAR(static_cast<double>(each.bytes) / seconds(each.in_flight).value, 12.5e6, 0.5e6);
    }
  }
}

// 120 ms of passes. Without staleness the last group's update is seen, at least by its latency of
// 10 ms; with it nothing is, on a line of 10 Mbps that dense gradients would keep busy for 7 s.
TEST(SparseExchange, StalenessHidesAThinLine) {
  const Outcome waits =
      perform_in_ocean(plan_of({.steps = 8, .rate = "10 Mbps", .more = sparse("staleness = 0\n")}));
  for (const int64_t period : periods(waits.parts[0])) EXPECT_GT(period, 130 * kOneMs);
  for (const char* how : {"staleness = 1\n", "freshness = \"fixed\"\n"}) {
    const Outcome run =
        perform_in_ocean(plan_of({.steps = 8, .rate = "10 Mbps", .more = sparse(how)}));
    for (const int64_t period : periods(run.parts[0])) EXPECT_EQ(period, 120 * kOneMs) << how;
    for (const double exposed : records(run.parts[0], "exposed_s")) EXPECT_EQ(exposed, 0);
  }
}

// The groups that are needed last were complete first, and arrive in time.
TEST(SparseExchange, SomeGroupsAreFreshAndFixedOnesNever) {
  const auto shares = [](const std::string& how) {
    const Outcome run =
        perform_in_ocean(plan_of({.steps = 6, .rate = "100 Mbps", .more = sparse(how)}));
    return records(run.parts[0], "fresh_share");
  };
  const std::vector<double> timely = shares("staleness = 1\n");
  ASSERT_EQ(timely.size(), 6u);
  EXPECT_EQ(timely[0], 1);
  EXPECT_GT(timely[5], 0.4);
  EXPECT_LT(timely[5], 1);
  EXPECT_THAT(shares("freshness = \"fixed\"\n"), ElementsAre(1, 0, 0, 0, 0, 0));
  EXPECT_TRUE(shares("staleness = 0\n").empty());
}

// Bound by the line: a step takes as long as its bytes.
TEST(SparseExchange, NoPassDoesWithoutTwoUpdates) {
  const plan::Plan plan =
      plan_of({.steps = 8, .rate = "1 Mbps", .more = sparse("staleness = 1\n")});
  const Outcome run = perform_in_ocean(plan);
  const double bytes = static_cast<double>(run.bytes.at({0, 1})) / 8;
  EXPECT_NEAR(static_cast<double>(periods(run.parts[0]).back()), bytes * 8 * 1000, 0.05e9);
}

TEST(SparseExchange, GoesOnFromACheckpointWithTheSameBits) {
  for (const char* how : {"staleness = 0\n", "freshness = \"fixed\"\n"}) {
    plan::Plan plan = plan_of({.pipelines = 4, .steps = 3, .hidden = kNarrow, .more = sparse(how)});
    const Outcome begun = perform_in_ocean(plan);
    plan.run.steps = 6;
    const Outcome rest = perform_in_ocean(plan, {}, {begun.state, 4});
    const Outcome again = perform_in_ocean(plan, {}, {begun.state, 4});
    EXPECT_EQ(rest.digests, again.digests);
    plan.run.compare_replicas_every = 3;  // all updates are made there, as for a checkpoint
    EXPECT_EQ(perform_in_ocean(plan).digests, rest.digests) << how;
  }
}

std::string local(const std::string& more = "") { return "[exchange]\nmode = \"local\"\n" + more; }
const char* const kLocalWays[] = {
    "steps = 3\n", "steps = 4\nfragments = 2\nvalues = \"int4\"\n",
    "steps = 4\nfragments = 4\ndelay = 3\nblend = 0.25\nvalues = \"fp32\"\n"};
std::vector<std::string> all_local_ways() {
  std::vector<std::string> out;
  for (const char* how : kLocalWays) out.push_back(local(how));
  for (const char* how :
       {"steps = 3\ndensity = 0.1\n", "steps = 4\nfragments = 2\nvalues = \"2bit\"\n"})
    out.push_back(std::string("[exchange]\nmode = \"sparse-local\"\n") + how);
  return out;
}

// Four replicas in two datacenters: what they share has the same bits, whatever each has learned alone.
TEST(LocalSteps, AllReplicasShareTheSameAnchors) {
  for (const std::string& how : all_local_ways()) {
    const plan::Plan plan = plan_of({.pipelines = 4,
                                     .stages = 2,
                                     .microbatches = 3,
                                     .steps = 9,
                                     .hidden = kNarrow,
                                     .more = how});
    const Outcome run = perform_in_ocean(plan);
    for (const Status& end : run.ends) ASSERT_TRUE(end) << how << end.error().text();
    for (const layout::Placement& place : plan.ranks)
      EXPECT_EQ(run.digests[place.rank], run.digests[plan.rank_of(place.stage, 0)]) << how;
  }
}

// In fp32 all bytes every 4 steps, and a header of each group.
TEST(LocalSteps, CrossTheWanEveryHSteps) {
  const plan::Plan plan = plan_of({.steps = 8, .more = local("steps = 4\nvalues = \"fp32\"\n")});
  const Outcome run = perform_in_ocean(plan);
  const double expected = 2 * bytes_of_gradients(plan);
  EXPECT_NEAR(static_cast<double>(run.bytes.at({0, 1})), expected, 0.001 * expected);
}

// 120 ms of passes. 4.3 MB in bf16 take 0.35 s at 100 Mbps, 10 steps after the first and the second time.
TEST(LocalSteps, DelayHidesAThinLine) {
  const auto exposed_with = [&](const std::string& how) {
    const Outcome run = perform_in_ocean(
        plan_of({.steps = 21, .rate = "100 Mbps", .more = local("steps = 10\n" + how)}));
    double sum = 0;
    for (const double each : records(run.parts[0], "exposed_s")) sum += each;
    return sum;
  };
  EXPECT_GT(exposed_with(""), 0.65);
  EXPECT_EQ(exposed_with("delay = 8\n"), 0);
  EXPECT_EQ(exposed_with("fragments = 2\n"), 0);
}

class LocalStepsGoOn : public ::testing::TestWithParam<std::string> {};

// At every step of two outer ones, some of whose updates are on their way then.
TEST_P(LocalStepsGoOn, FromACheckpointWithTheSameBits) {
  plan::Plan whole = plan_of({.steps = 9, .hidden = kNarrow, .more = GetParam()});
  const Outcome all = perform_in_ocean(whole);
  for (const int steps : {3, 5, 7}) {
    plan::Plan plan = whole;
    plan.run.steps = steps;
    const Outcome begun = perform_in_ocean(plan);
    const Outcome rest = perform_in_ocean(whole, {}, {begun.state, steps + 1});
    for (const Status& end : rest.ends) ASSERT_TRUE(end) << end.error().text();
    EXPECT_EQ(rest.digests, all.digests) << steps;
    ASSERT_EQ(rest.state.size(), all.state.size());
    for (const kernels::NamedTensor& each : all.state) {
      const auto found =
          std::find_if(rest.state.begin(), rest.state.end(),
                       [&](const kernels::NamedTensor& x) { return x.name == each.name; });
      ASSERT_NE(found, rest.state.end()) << each.name;
      EXPECT_EQ(found->bytes, each.bytes) << steps << " " << each.name;
    }
  }
}
// A test for each way: all of them take minutes under a sanitizer.
INSTANTIATE_TEST_SUITE_P(Ways, LocalStepsGoOn, ::testing::ValuesIn(all_local_ways()),
                         [](const auto& way) { return std::to_string(way.index); });

TEST(Exchange, WhoLosesAReplicaSaysSo) {
  const plan::Plan plan = plan_of({.stages = 2, .microbatches = 2, .steps = 50});
  const Outcome run = perform_in_ocean(plan, Loss{1, SimTime{700 * kOneMs}});
  ASSERT_FALSE(run.ends[0]);
  EXPECT_EQ(run.ends[0].error().code, ErrorCode::kLostPeer);
  EXPECT_THAT(run.ends[0].error().text(), HasSubstr("exchanging gradients"));
  for (const Status& end : run.ends) EXPECT_FALSE(end);
}

TEST(Exchange, KernelsWithoutGroupsAreRefused) {
  class NoGroups : public kernels::EmulatedKernels {
   public:
    using kernels::EmulatedKernels::EmulatedKernels;
    kernels::ParameterGroups* parameters() override { return nullptr; }
  };
  const plan::Plan plan = plan_of({});
  SystemClock clock;
  NoGroups kernels(plan, 0, clock);
  ocean::Ocean ocean(1);
  ocean::OceanLinks links(ocean, {});
  ocean::OceanMessenger messenger(links, 0);
  const auto trace =
      perform(plan, schedule::build(plan)->ranks[0], {}, kernels, messenger, clock, {});
  ASSERT_FALSE(trace);
  EXPECT_THAT(trace.error().text(), HasSubstr("cannot hand out their gradients group by group"));
}

}  // namespace
}  // namespace tombolo::stage
