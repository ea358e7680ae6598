// Gradients between datacenters twice: predicted by the simulator, and exchanged with real bytes by
// ranks in an ocean's time. Whatever goes first, both must have done the same: each part of a pass,
// each message and each sum at the same nanosecond.
//
// Messages are whole here, as the simulator has them: a run's may be passed within (ocean_links.h).
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "perform/kernels/emulated_kernels.h"
#include "perform/stage/perform.h"
#include "predict/sim/simulate.h"
#include "spec/plan/gradient_groups.h"
#include "spec/plan/job.h"
#include "support/ocean_links.h"

namespace tombolo {
namespace {

// A pipeline in each of two or three datacenters; four layers of 2.8 MB of gradients, each a group.
struct Labs {
  std::vector<std::string> places = {"lab", "cloud"};
  int stages = 1;
  const char* rate = "200 Mbps";
  std::string exchange;
};

plan::Plan plan_of(const Labs& labs) {
  std::string places, cluster;
  for (const std::string& name : labs.places) {
    places += fmt::format("{}\"{}\"", places.empty() ? "" : ", ", name);
    cluster += fmt::format(
        "[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"emulated:a100-80g\"\nnodes = {}\n"
        "devices_per_node = 1\n",
        name, labs.stages);
  }
  for (size_t a = 0; a < labs.places.size(); ++a) {
    for (size_t b = a + 1; b < labs.places.size(); ++b)
      cluster += fmt::format(
          "[[cluster.wan]]\nbetween = [\"{}\", \"{}\"]\none_way_latency = \"{} ms\"\n"
          "node_pair_limit = \"{}\"\n",
          labs.places[a], labs.places[b], 10 + 3 * b, labs.rate);
  }
  const auto plan =
      plan::parse_job(
          fmt::format("[model]\nlayers = 4\nhidden = 208\nheads = 4\nffn = 832\nvocabulary = 64\n"
                      "sequence = 16\n[training]\nglobal_batch = {}\nprecision = \"fp32\"\n"
                      "[parallelism]\npipeline = {}\ndata = {}\ndatacenter_per_replica = [{}]\n"
                      "[run]\nsteps = 6\n[stage_times]\nforward = \"40000003 ns\"\n"
                      "backward = \"80000009 ns\"\n[exchange]\n{}{}",
                      2 * labs.places.size(), labs.stages, labs.places.size(), places,
                      labs.exchange, cluster),
          "/test/labs.toml")
          .and_then(plan::lay_out);
  CHECK(plan, "{}", plan.error().text());
  return *plan;
}

// When what happened, with how many bytes: by lane, ranks, action, iteration and group.
using Key = std::tuple<int, int32_t, int32_t, std::string, int64_t, int32_t>;
using Happened = std::map<Key, std::multiset<std::tuple<int64_t, int64_t, int64_t>>>;

// Of the iterations that were performed; what takes no time is not drawn alike.
void add(const trace::Trace& trace, int64_t iterations, Happened& out) {
  for (const trace::Interval& i : trace.intervals) {
    if (i.iteration > iterations || i.start == i.end) continue;
    const Key key{static_cast<int>(i.lane),  i.rank,      i.peer,
                  action::to_text(i.action), i.iteration, i.part};
    out[key].insert({i.start.ns, i.end.ns, i.bytes});
  }
}

struct Performed {
  Happened happened;
  std::vector<std::string> digests;  // by rank
};

Performed perform(const plan::Plan& plan) {
  const auto schedule = schedule::build(plan);
  CHECK(schedule, "{}", schedule.error().text());
  ocean::Ocean ocean(1);
  ocean::OceanLinks links(
      ocean, [&](int32_t from, int32_t to) { return kernels::shape_between(plan, from, to); },
      {.order = plan.exchange->order_in_use(), .segment = SIZE_MAX});
  Performed out;
  out.digests.resize(plan.ranks.size());
  size_t done = 0;
  const SimTime origin = ocean.now();
  const auto live = [&](int32_t rank, ocean::Waters& waters) -> Status {
    ocean::OceanMessenger messenger(links, rank);
    kernels::EmulatedKernels kernels(plan, rank, waters, {.check_every_byte = true});
    TRY(kernels.join_replicas({.ranks = plan.replicas_of(plan.ranks[rank].stage),
                               .own = static_cast<size_t>(plan.ranks[rank].replica),
                               .messenger = &messenger,
                               .lie_apart = true}));
    const trace::Trace part =
        TRY(stage::perform(plan, schedule->ranks[rank], {.rank = rank, .origin = origin}, kernels,
                           messenger, waters, {}));
    add(part, plan.run.steps, out.happened);
    out.digests[rank] = TRY(kernels.weights_digest());
    return {};
  };
  for (const layout::Placement& place : plan.ranks) {
    ocean.start(place.rank, [&, rank = place.rank](ocean::Waters& waters) {
      const Status end = live(rank, waters);
      EXPECT_TRUE(end) << end.error().text();
      ++done;
      return 0;
    });
  }
  CHECK(ocean.sail([&] { return done == plan.ranks.size(); }), "all wait for ever");
  return out;
}

Happened predict(const plan::Plan& plan) {
  const auto simulation = sim::simulate(plan, {.iterations = static_cast<int>(plan.run.steps)});
  CHECK(simulation, "{}", simulation.error().text());
  Happened out;
  add(simulation->trace, plan.run.steps, out);
  return out;
}

// Updates of single numbers have the sizes that are predicted.
const char* const kEveryStep[] = {
    "mode = \"dense\"\n",
    "mode = \"sparse\"\nselect = \"chunks\"\ndensity = 0.3\nstaleness = 0\n",
    "mode = \"sparse\"\nselect = \"chunks\"\ndensity = 0.3\nfreshness = \"fixed\"\n",
    "mode = \"sparse\"\nselect = \"top-k\"\noptimizer_visits = \"all\"\nstaleness = 0\n",
};
const char* const kSomeSteps[] = {
    "mode = \"local\"\nsteps = 2\nvalues = \"fp32\"\n",
    "mode = \"sparse-local\"\nsteps = 4\nfragments = 2\n",
};
std::string in_order(const char* mode, const char* order) {
  return fmt::format("{}order = \"{}\"\n", mode, order);
}

void expect_the_same(const plan::Plan& plan, const std::string& name) {
  const Happened predicted = predict(plan), performed = perform(plan).happened;
  EXPECT_FALSE(predicted.empty());
  EXPECT_EQ(predicted.size(), performed.size()) << name;
  for (const auto& [key, spans] : predicted) {
    const auto found = performed.find(key);
    const std::string what =
        fmt::format("{}: rank {}, {} of group {} of iteration {}", name, std::get<1>(key),
                    std::get<3>(key), std::get<5>(key), std::get<4>(key));
    ASSERT_NE(found, performed.end()) << what << " was not performed";
    ASSERT_EQ(found->second, spans) << what;
  }
}

class ExchangeEveryStep : public ::testing::TestWithParam<const char*> {};

TEST_P(ExchangeEveryStep, IsPerformedAsPredictedInEitherOrder) {
  for (const char* order : {"deadline", "first-come"}) {
    const std::string exchange = in_order(GetParam(), order);
    expect_the_same(plan_of({.exchange = exchange}), exchange);
    expect_the_same(plan_of({.rate = "1 Gbps", .exchange = exchange}), exchange + "1 Gbps");
    expect_the_same(plan_of({.stages = 2, .exchange = exchange}), exchange + "two stages");
    expect_the_same(plan_of({.places = {"lab", "cloud", "edge"}, .exchange = exchange}),
                    exchange + "three datacenters");
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, ExchangeEveryStep, ::testing::ValuesIn(kEveryStep),
                         [](const auto& mode) { return std::to_string(mode.index); });

// What is summed of whom does not change with who goes first.
TEST(ExchangeOrder, ChangesNoBit) {
  std::vector<std::string> modes(std::begin(kEveryStep), std::end(kEveryStep));
  modes.insert(modes.end(), std::begin(kSomeSteps), std::end(kSomeSteps));
  for (const std::string& mode : modes) {
    const auto with = [&](const char* order) {
      return perform(plan_of({.stages = 2, .exchange = in_order(mode.c_str(), order)})).digests;
    };
    EXPECT_EQ(with("deadline"), with("first-come")) << mode;
  }
}

// Four groups of 2.8 MB, 113 ms each at 200 Mbps, of which the last one's gradient is complete first.
// While it is on the link all others are handed over: in the order of need they follow as 0, 1, 2; first
// come, as 2, 1, 0.
TEST(ExchangeOrder, SaysWhichGroupLeavesNext) {
  const auto left = [](const char* order) {
    std::map<int64_t, int32_t> groups;  // by when they left rank 0 in iteration 2
    const plan::Plan plan = plan_of({.exchange = in_order(kEveryStep[0], order)});
    CHECK(plan::gradient_groups(plan, 0).size() == 4, "not four groups");
    for (const auto& [key, spans] : perform(plan).happened) {
      const auto& [lane, rank, peer, action, iteration, group] = key;
      if (lane == static_cast<int>(trace::Lane::kLink) && rank == 0 && iteration == 2)
        groups[std::get<0>(*spans.begin())] = group;
    }
    std::vector<int32_t> out;
    for (const auto& [start, group] : groups) out.push_back(group);
    return out;
  };
  EXPECT_EQ(left("deadline"), (std::vector<int32_t>{3, 0, 1, 2}));
  EXPECT_EQ(left("first-come"), (std::vector<int32_t>{3, 2, 1, 0}));
}

// First come, the next forward pass begins when all groups are there: a period is that without overlap
// but for the backward pass behind the first group. In the order of need half of that pass is over then.
TEST(ExchangeOrder, FirstComeIsSlowerOnASlowLink) {
  const auto period = [](const char* order) {
    const plan::Plan plan = plan_of({.exchange = in_order(kEveryStep[0], order)});
    return seconds(sim::simulate(plan, {.iterations = 6})->iteration).value;
  };
  const plan::Plan plan = plan_of({.exchange = in_order(kEveryStep[0], "first-come")});
  const auto groups = plan::gradient_groups(plan, 0);
  const double bytes = plan.stages[0].gradients.value;
  const double passes = 2 * 120.000012e-3, backward = 80.000009e-3;
  const double first = groups.back().complete_at * backward;
  EXPECT_NEAR(period("first-come"), passes - (backward - first) + bytes * 8 / 0.2e9 + 13e-3, 1e-6);
  EXPECT_NEAR(period("first-come") - period("deadline"), 20e-3, 0.2e-3);
}

}  // namespace
}  // namespace tombolo
