#include "decide/across/ways.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/random.h"
#include "decide/across/promise.h"
#include "decide/across/way_order.h"
#include "predict/cost/price_plan.h"
#include "predict/cost/worth.h"
#include "predict/sim/simulate.h"
#include "spec/schedule/schedule.h"

namespace tombolo::across {
namespace {

using ::testing::HasSubstr;

// Two datacenters of `nodes` nodes with 8 GPUs, `rate` between two nodes.
std::string two(const std::string& rate, int nodes = 1, const std::string& more = "",
                const std::string& second = "h100-80g") {
  std::string text = R"([model]
layers = 8
hidden = 2048
heads = 16
sequence = 2048
vocabulary = 32000
[training]
global_batch = 16
)";
  for (const auto& [name, device] :
       {std::pair("ashburn", std::string("h100-80g")), std::pair("dublin", second)}) {
    text += fmt::format(
        "[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"{}\"\nnodes = {}\ndevices_per_node = 8\n"
        "price = \"2.50 USD/device-hour\"\n"
        "scale_up = {{ domain = 8, bandwidth = \"450 GBps\", latency = \"1 us\" }}\n"
        "scale_out = {{ bandwidth = \"400 Gbps\", latency = \"5 us\" }}\n",
        name, device, nodes);
  }
  return text +
         fmt::format(
             "[[cluster.wan]]\nbetween = [\"ashburn\", \"dublin\"]\n"
             "one_way_latency = \"30 ms\"\nnode_pair_limit = \"{}\"\nprice = \"0.05 USD/GB\"\n",
             rate) +
         more;
}

// Few layouts, and no break-even: what is compared is what matters here.
constexpr int kLayouts = 2;

Result<Ways> ways(const std::string& text,
                  WaysOptions options = {.layouts = kLayouts, .break_even = false}) {
  const auto open = plan::parse_open_job(text, "job.toml");
  if (!open) return tl::unexpected(open.error());
  return ways_across(*open, options);
}

const Way* find(const Ways& found, const std::string& name) {
  for (const Way& way : found.ways)
    if (way.name == name) return &way;
  return nullptr;
}

TEST(Ways, EachIsWhatSimulateSaysOfItsJob) {
  const auto found = ways(two("10 Gbps"));
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_GE(found->ways.size(), 8u);
  for (const Way& way : found->ways) {
    const auto plan = cost::make_plan(way.job);
    ASSERT_TRUE(plan) << way.name << plan.error().text();
    EXPECT_EQ(seconds(sim::simulate(*plan)->iteration), way.iteration) << way.name;
    EXPECT_EQ(plan->devices(), way.devices);
    EXPECT_LE(way.devices, 16);
  }
}

TEST(Ways, AreInTheOrderOfTimeToTheSameLoss) {
  const auto found = ways(two("1 Gbps"));
  ASSERT_TRUE(found) << found.error().text();
  for (size_t i = 1; i < found->ways.size(); ++i)
    EXPECT_LE(found->ways[i - 1].time_per_step(), found->ways[i].time_per_step() * (1 + kTie));
  for (const Way& way : found->ways)
    EXPECT_DOUBLE_EQ(way.time_per_step().value, way.iteration.value * way.steps.factor);
  const auto same =
      ways(two("1 Gbps"), {.count_steps = false, .layouts = kLayouts, .break_even = false});
  ASSERT_TRUE(same);
  for (const Way& way : same->ways) EXPECT_EQ(way.steps.factor, 1);
}

// Bytes by hand: nothing of a job in one place, 2 bytes of a gradient there and back of dense sums.
TEST(Ways, SayWhatCrosses) {
  const auto found = ways(two("10 Gbps"));
  ASSERT_TRUE(found);
  EXPECT_EQ(find(*found, "ashburn alone")->across, Bytes{});
  const Way* dense = find(*found, "gradients across, dense");
  const Way* local = find(*found, "gradients across, local, 30 steps");
  ASSERT_TRUE(dense && local);
  EXPECT_GT(dense->across.value, 0);
  EXPECT_LT(local->across.value, dense->across.value / 10);
}

// A line that carries nothing leaves one datacenter alone; one like a datacenter's own network does not.
TEST(Ways, AThinLineIsNotCrossedAndAThickOneIs) {
  const auto thin =
      ways(two("1 Mbps"), {.count_steps = false, .layouts = kLayouts, .break_even = false});
  ASSERT_TRUE(thin) << thin.error().text();
  EXPECT_EQ(thin->ways.front().kind, WayKind::kAlone) << thin->ways.front().name;
  const auto thick =
      ways(two("400 Gbps"), {.count_steps = false, .layouts = kLayouts, .break_even = false});
  ASSERT_TRUE(thick);
  EXPECT_EQ(thick->ways.front().kind, WayKind::kHomes) << thick->ways.front().name;
  EXPECT_EQ(thick->ways.front().devices, 16);
}

// Left out, a datacenter makes nothing faster: each subset is among the ways.
TEST(Ways, AreNoWorseThanWithADatacenterLess) {
  for (const char* rate : {"10 Mbps", "1 Gbps", "50 Gbps"}) {
    const auto both = ways(two(rate));
    ASSERT_TRUE(both);
    for (const char* name : {"ashburn alone", "dublin alone"})
      EXPECT_LE(both->ways.front().time_per_step(), find(*both, name)->time_per_step() * (1 + kTie))
          << rate;
  }
}

TEST(Ways, UnlikeDatacentersShareTheBatchBySpeed) {
  std::string text = two("100 Gbps", 1, "", "a100-80g");
  text.replace(text.find("hidden = 2048"), 13, "hidden = 8192");
  const auto found = ways(text);
  ASSERT_TRUE(found) << found.error().text();
  bool divided = false;
  for (const Way& way : found->ways) {
    const auto& each = way.job.parallelism.microbatches_per_replica;
    if (each.empty()) continue;
    divided = true;
    EXPECT_GT(each.front(), each.back()) << "the H100s are in front";
  }
  EXPECT_TRUE(divided);
}

// Of ways that take as long the cheaper is in front.
TEST(Ways, TiesGoToTheCheaperOne) {
  std::string text = two("1 Mbps");
  for (const char* cheaper : {"ashburn", "dublin"}) {
    std::string priced = text;
    priced.replace(priced.find("2.50", priced.find(cheaper)), 4, "2.40");
    const auto found = ways(priced, {.count_steps = false, .layouts = 1, .break_even = false});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->ways[0].name, cheaper + std::string(" alone"));
    EXPECT_EQ(found->ways[0].iteration, found->ways[1].iteration);
    EXPECT_LT(*found->ways[0].cost, *found->ways[1].cost);
  }
}

TEST(Ways, OnTheFrontIsWhatNoneBeatsInTimeAndCost) {
  const auto found = ways(two("10 Gbps"), {.layouts = 1, .break_even = false});
  ASSERT_TRUE(found);
  int on_front = 0;
  for (const Way& way : found->ways) {
    const bool beaten = std::any_of(found->ways.begin(), found->ways.end(), [&](const Way& other) {
      return other.time_per_step() <= way.time_per_step() &&
             *other.cost_per_step() <= *way.cost_per_step() &&
             (other.time_per_step() < way.time_per_step() ||
              *other.cost_per_step() < *way.cost_per_step());
    });
    EXPECT_EQ(way.on_front, !beaten) << way.name;
    on_front += way.on_front;
  }
  EXPECT_GT(on_front, 1);
  EXPECT_LT(on_front, std::ssize(found->ways));
}

// A budget that the fastest exceeds leaves the fastest of those that do not; none at all, the order.
TEST(Ways, LimitsComeFirst) {
  const auto free = ways(two("10 Gbps"), {.count_steps = false, .layouts = 1, .break_even = false});
  ASSERT_TRUE(free);
  const Dollars dearest = *free->ways.front().cost_per_step();
  WaysOptions options{.count_steps = false, .layouts = 1, .break_even = false};
  options.limits.cost_per_step = dearest * 0.999;
  const auto kept = ways(two("10 Gbps"), options);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->ways.size(), free->ways.size());
  EXPECT_TRUE(kept->ways.front().within);
  EXPECT_LT(*kept->ways.front().cost_per_step(), dearest);
  bool beyond = false;
  for (const Way& way : kept->ways) {
    EXPECT_EQ(way.within, *way.cost_per_step() <= dearest * 0.999) << way.name;
    EXPECT_TRUE(!beyond || !way.within) << way.name << " stands behind one beyond the budget";
    beyond = beyond || !way.within;
  }
  EXPECT_TRUE(beyond);
  options.limits.time_per_step = 1_ms;
  const auto none = ways(two("10 Gbps"), options);
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->ways.front().within);
}

TEST(Ways, StoppedItAnswersWithWhatThereIs) {
  const auto whole = ways(two("100 Gbps"), {.layouts = 1});
  ASSERT_TRUE(whole);
  EXPECT_FALSE(whole->stopped);
  int answers = 0;
  for (const int asks : {0, 3, 12, 40, std::numeric_limits<int>::max()}) {
    int asked = 0;
    WaysOptions options{.layouts = 1};
    options.stop = [&] { return ++asked > asks; };
    const auto found = ways(two("100 Gbps"), options);
    if (!found) {
      EXPECT_THAT(found.error().message, HasSubstr("stopped before a way was simulated"));
      EXPECT_EQ(answers, 0);
      continue;
    }
    ++answers;
    EXPECT_LE(found->simulated, whole->simulated);
    EXPECT_EQ(found->stopped, asks < std::numeric_limits<int>::max());
    if (found->stopped) {
      EXPECT_TRUE(found->break_even.empty());
    } else {
      EXPECT_EQ(found->simulated, whole->simulated);
    }
  }
  EXPECT_GT(answers, 2);
}

const std::vector<WayRange>& ranges(const Ways& found, BreakEvenAxis axis) {
  for (const BreakEven& each : found.break_even)
    if (each.axis == axis) return each.ranges;
  static const std::vector<WayRange> none;
  return none;
}

// Where another way begins to win, it and the one before it score alike.
TEST(Ways, BreakEvenIsWhereTwoScoreAlike) {
  int changes = 0;
  using search::Objective;
  for (const Objective objective : {Objective::kTime, Objective::kCost}) {
    const auto found = ways(two("2 Gbps"), {.objective = objective, .layouts = kLayouts});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->break_even.size(), objective == Objective::kCost ? 4u : 2u);
    for (const BreakEven& each : found->break_even) {
      const BreakEvenAxis axis = each.axis;
      const std::vector<WayRange>& of = each.ranges;
      ASSERT_FALSE(of.empty());
      EXPECT_EQ(of.front().from, 0);
      for (size_t i = 1; i < of.size(); ++i) {
        ++changes;
        const auto score_of = [&](Way way) {
          plan::Job job = way.job;
          for (cluster::WanLink& link : job.cluster.wan) {
            if (axis == BreakEvenAxis::kRate)
              link.node_pair_limit = link.node_pair_limit * of[i].from;
            if (axis == BreakEvenAxis::kLatency)
              link.one_way_latency = link.one_way_latency * of[i].from;
            if (axis == BreakEvenAxis::kEgress) link.price = link.price * of[i].from;
          }
          for (cluster::Datacenter& place : job.cluster.datacenters)
            if (axis == BreakEvenAxis::kDevices) place.price = place.price * of[i].from;
          const auto plan = cost::make_plan(job);
          way.iteration = seconds(*sim::iteration_time(*plan));
          way.cost = cost::worth_of(*plan, way.iteration).cost.total();
          return score(way, objective);
        };
        // In its own layout, or in that of the best whole pipelines.
        const auto score_there = [&](const std::string& name) {
          const Way& way = *find(*found, name);
          const double own = score_of(way);
          if (way.kind != WayKind::kHomes) return own;
          plan::Job job = std::find_if(found->ways.begin(), found->ways.end(), [](const Way& each) {
                            return each.kind == WayKind::kHomes;
                          })->job;
          job.exchange = way.job.exchange;
          const auto other = way_of(way.kind, name, job, {});
          return other ? std::min(own, score_of(*other)) : own;
        };
        const std::string &before = of[i - 1].name, &after = of[i].name;
        EXPECT_NE(before, after);
        EXPECT_GT(of[i].from, of[i - 1].from);
        EXPECT_NEAR(score_there(before) / score_there(after), 1, 0.06)
            << to_name(axis) << ": " << before << ", then " << after;
      }
    }
  }
  EXPECT_GT(changes, 0);
}

// What is far behind by the closed form is left out, once something of its name was simulated.
TEST(Contest, LeavesOutWhatIsFarBehind) {
  Contest contest({"a", "a", "b", "a", "b"}, {{3, 1}, {1, 1}, {9, 1}, {1.1, 1}, {2, 1}});
  EXPECT_EQ(contest.next(), (std::vector<size_t>{1, 4}));
  contest.take(1, 1.05);  // the other one, 1.1, may still win; 3 may not
  EXPECT_EQ(contest.next(), (std::vector<size_t>{3, 2}));  // of b nothing was simulated
  contest.take(3, 1.2);
  contest.take(2, 9.5);
  EXPECT_TRUE(contest.next().empty());
  EXPECT_EQ(contest.left_out(), 1);
}

// Promises that are all too long by as much say nothing of who is ahead.
TEST(Contest, KeepsWhatIsNearTheBestByItsPromise) {
  Contest contest({"a", "a", "a"}, {{10, 1}, {11, 1}, {13, 1}});
  EXPECT_EQ(contest.next(), std::vector<size_t>{0});
  contest.take(0, 4);
  EXPECT_EQ(contest.next(), std::vector<size_t>{1});
  contest.take(1, 5);
  EXPECT_TRUE(contest.next().empty());
  EXPECT_EQ(contest.left_out(), 1);
}

TEST(Ways, LeavingOutLosesNothing) {
  int64_t left_out = 0;
  for (const char* rate : {"100 Mbps", "2 Gbps"}) {
    for (const search::Objective objective : {search::Objective::kTime, search::Objective::kCost}) {
      WaysOptions options{.objective = objective, .break_even = false};
      const auto all = ways(two(rate, 1, "", "a100-80g"), options);
      options.simulate_all = Seconds{0};
      const auto some = ways(two(rate, 1, "", "a100-80g"), options);
      ASSERT_TRUE(all && some);
      EXPECT_EQ(all->left_out, 0);
      left_out += some->left_out;
      for (const Way& way : all->ways) {
        const Way* same = find(*some, way.name);
        ASSERT_TRUE(same) << way.name;
        EXPECT_LE(score(*same, objective), score(way, objective) * (1 + kTie))
            << rate << ", " << to_name(objective) << ": " << way.name;
      }
    }
  }
  EXPECT_GT(left_out, 0);
}

TEST(Ways, StagesMayEndEarlierThanTheRest) {
  WaysOptions options{.layouts = kLayouts, .break_even = false};
  options.stop_stages = [] { return true; };
  const auto found = ways(two("10 Gbps"), options);
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_TRUE(found->stages_stopped);
  EXPECT_FALSE(found->stopped);
  EXPECT_TRUE(find(*found, "gradients across, dense"));
}

TEST(Ways, TooLargeToSimulateIsNotTooLargeToTrain) {
  std::string text = two("10 Gbps", 1, "[parallelism]\npipeline = 8\n");
  text.replace(text.find("global_batch = 16"), 17, "global_batch = 1048576");
  text.replace(text.find("[training]"), 10, "[training]\nmicro_batch = 1");
  const auto found = ways(text);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kFailed);
  EXPECT_THAT(found.error().text(), HasSubstr("million passes of a microbatch to simulate"));
}

TEST(Ways, TheNumberOfThreadsChangesNothing) {
  const auto one = ways(two("10 Gbps"), {.threads = 1, .layouts = kLayouts});
  const auto three = ways(two("10 Gbps"), {.threads = 3, .layouts = kLayouts});
  ASSERT_TRUE(one && three);
  ASSERT_EQ(one->ways.size(), three->ways.size());
  for (size_t i = 0; i < one->ways.size(); ++i) {
    EXPECT_EQ(one->ways[i].name, three->ways[i].name);
    EXPECT_EQ(one->ways[i].layout, three->ways[i].layout);
    EXPECT_EQ(one->ways[i].iteration, three->ways[i].iteration);
  }
  ASSERT_EQ(one->break_even.size(), three->break_even.size());
  for (const auto& [axis, of] : one->break_even) {
    const std::vector<WayRange>& other = ranges(*three, axis);
    ASSERT_EQ(of.size(), other.size());
    for (size_t i = 0; i < of.size(); ++i) {
      EXPECT_EQ(of[i].from, other[i].from);
      EXPECT_EQ(of[i].name, other[i].name);
    }
  }
}

// Alone, a mixture may shard its sequences; with replicas elsewhere it cannot, and has other layouts.
TEST(Ways, MixturesHaveWholePipelinesToo) {
  const auto found =
      ways(two("10 Gbps", 1, "[model.experts]\ncount = 8\nper_token = 2\nffn = 4096\n"));
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_TRUE(find(*found, "gradients across, dense"));
  EXPECT_TRUE(find(*found, "gradients across, local, 30 steps"));
}

std::string why_not(const Ways& found, const std::string& name) {
  for (const NoWay& each : found.no_ways)
    if (each.name == name) return each.reason;
  return "";
}

TEST(Ways, WhatIsNoWaySaysWhy) {
  const auto sharded = ways(two("10 Gbps", 1, "[parallelism]\ncontext = 2\n"));
  ASSERT_TRUE(sharded) << sharded.error().text();
  EXPECT_THAT(why_not(*sharded, "gradients across, dense"),
              HasSubstr("parallelism.context = 2: at most 1"));
  std::string apart = two("10 Gbps");
  apart.erase(apart.find("[[cluster.wan]]"));
  const auto found = ways(apart, {.layouts = 1});
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(why_not(*found, "stages across"), "no WAN link joins two datacenters");
  EXPECT_THAT(why_not(*found, "gradients across, dense"), HasSubstr("no WAN link joins each two"));
  EXPECT_TRUE(found->break_even.empty());
}

TEST(Ways, KeepSamplesAndLabelsWhereTheyAre) {
  const auto apart =
      ways(two("10 Gbps", 1,
               "[parallelism]\nfirst_stage_in = [\"dublin\"]\nlast_stage_in = [\"ashburn\"]\n"));
  ASSERT_TRUE(apart) << apart.error().text();
  ASSERT_EQ(apart->ways.size(), 1u);
  EXPECT_EQ(apart->ways.front().name, "stages across");
  const layout::Parallelism& p = apart->ways.front().job.parallelism;
  EXPECT_EQ(p.datacenter_per_stage.front(), std::vector<std::string>{"dublin"});
  EXPECT_EQ(p.datacenter_per_stage.back(), std::vector<std::string>{"ashburn"});
  for (const char* name : {"ashburn alone", "dublin alone", "gradients across"})
    EXPECT_THAT(
        why_not(*apart, name),
        HasSubstr("first_stage_in = [dublin], last_stage_in = [ashburn]: no pipeline may both"));
  const auto one = ways(two("10 Gbps", 1, "[parallelism]\nfirst_stage_in = [\"dublin\"]\n"));
  ASSERT_TRUE(one) << one.error().text();
  EXPECT_TRUE(find(*one, "dublin alone"));
  EXPECT_FALSE(find(*one, "ashburn alone"));
  EXPECT_FALSE(find(*one, "gradients across, dense"));
}

// Of a part of the datacenters a way's job names those alone, so that it can be read again.
TEST(Ways, JobsInAPartOfTheDatacentersCanBeReadAgain) {
  const auto found = ways(two("10 Gbps", 1,
                              "[parallelism]\nfirst_stage_in = [\"ashburn\", \"dublin\"]\n"
                              "last_stage_in = [\"dublin\", \"ashburn\"]\n"));
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->ways.size(), ways(two("10 Gbps"))->ways.size());
  for (const Way& way : found->ways) {
    for (const auto& names :
         {way.job.parallelism.first_stage_in, way.job.parallelism.last_stage_in}) {
      std::vector<std::string> sorted = names;
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(sorted, way.datacenters) << way.name;
    }
    const auto again = plan::parse_job(plan::to_toml_text(way.job, "again.toml", ""), "again.toml");
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_EQ(way_of(way.kind, way.name, *again, {})->iteration, way.iteration);
  }
}

TEST(Ways, KeysWithoutAnEffectAreNoted) {
  const auto found =
      ways(two("10 Gbps", 1, "[parallelism]\nschedule = \"zb-h1\"\nsharing = \"temporal\"\n"));
  ASSERT_TRUE(found) << found.error().text();
  for (const char* key :
       {"parallelism.schedule = \"zb-h1\" has", "parallelism.sharing = \"temporal\" has"})
    EXPECT_THAT(found->notes, testing::Contains(HasSubstr(key)));
}

TEST(Ways, WhatDoesNotFitSaysWhy) {
  std::string large = two("10 Gbps");
  large.replace(large.find("layers = 8"), 10, "layers = 96");
  large.replace(large.find("hidden = 2048"), 13, "hidden = 16384");
  const auto none = ways(large);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(none.error().text(), HasSubstr("ashburn alone: nothing fits into h100-80g"));
}

// Every layout of a pipeline in one datacenter or repeated in several, with every recomputation, ZeRO 0
// and 1, and every setting of the grid; stages across are left to geo's own test by brute force.
double best_by_force(const plan::OpenJob& open, search::Objective objective) {
  double best = INFINITY;
  const auto play = [&](plan::Job job) {
    const auto plan = cost::make_plan(job);
    if (!plan) return;
    const auto schedule = schedule::build(*plan);
    if (!schedule || !schedule::check_memory(*plan, *schedule)) return;
    const auto time = sim::iteration_time(*plan);
    if (!time) return;
    const Seconds iteration = seconds(*time);
    best = std::min(best, objective == search::Objective::kCost
                              ? cost::worth_of(*plan, iteration).cost.total()->value
                              : iteration.value);
  };
  const auto place = [&](plan::Job job, const std::vector<std::string>& where) {
    std::erase_if(job.cluster.datacenters, [&](const cluster::Datacenter& each) {
      return std::find(where.begin(), where.end(), each.name) == where.end();
    });
    std::erase_if(job.cluster.wan, [&](const cluster::WanLink& link) {
      return !job.cluster.find(link.between[0]) || !job.cluster.find(link.between[1]);
    });
    if (where.size() == 1) {
      play(job);
      return;
    }
    const int64_t each = job.parallelism.data;
    job.parallelism.data = each * std::ssize(where);
    for (const std::string& name : where) {
      job.parallelism.datacenter_per_replica.insert(job.parallelism.datacenter_per_replica.end(),
                                                    static_cast<size_t>(each), name);
    }
    job.parallelism.microbatches_by_speed = true;
    for (const plan::Exchange& exchange : exchange_grid({}, {})) {
      job.exchange = exchange;
      play(job);
    }
  };
  const int64_t devices = open.job.cluster.datacenters[0].devices();
  std::vector<std::vector<std::string>> subsets{{}};
  for (const cluster::Datacenter& each : open.job.cluster.datacenters) {
    const size_t before = subsets.size();
    for (size_t i = 0; i < before; ++i) {
      subsets.push_back(subsets[i]);
      subsets.back().push_back(each.name);
    }
  }
  subsets.erase(subsets.begin());
  for (int64_t tensor = 1; tensor <= devices; tensor *= 2) {
    for (int64_t pipeline = 1; tensor * pipeline <= devices; pipeline *= 2) {
      for (int64_t data = 1; tensor * pipeline * data <= devices; data *= 2) {
        for (int64_t micro = 1; micro <= open.job.training.global_batch; micro *= 2) {
          for (const auto recompute :
               {model::Recompute::kNone, model::Recompute::kSelective, model::Recompute::kFull}) {
            for (const int64_t zero : {0, 1}) {
              plan::Job job = open.job;
              job.training.micro_batch = micro;
              job.training.recompute = recompute;
              job.parallelism.tensor = tensor;
              job.parallelism.pipeline = pipeline;
              job.parallelism.data = data;
              job.parallelism.zero = zero;
              job.parallelism.sequence_parallel = tensor > 1;
              for (const std::vector<std::string>& where : subsets) place(job, where);
            }
          }
        }
      }
    }
  }
  return best;
}

// A third datacenter, and its links to the others.
std::string with_oslo(std::string text, const std::string& rate) {
  const size_t first = text.find("[[cluster.datacenter]]");
  const size_t second = text.find("[[cluster.datacenter]]", first + 1);
  std::string oslo = text.substr(first, second - first);
  oslo.replace(oslo.find("ashburn"), 7, "oslo");
  text.insert(text.find("[[cluster.wan]]"), oslo);
  for (const char* other : {"ashburn", "dublin"}) {
    text += fmt::format(
        "[[cluster.wan]]\nbetween = [\"oslo\", \"{}\"]\none_way_latency = \"20 ms\"\n"
        "node_pair_limit = \"{}\"\nprice = \"0.02 USD/GB\"\n",
        other, rate);
  }
  return text;
}

TEST(Ways, AreNoWorseThanBruteForce) {
  Random random(11);
  const int rounds = std::getenv("TOMBOLO_LONG") ? 30 : 10;
  for (int round = 0; round < rounds; ++round) {
    const char* const devices[] = {"h100-80g", "a100-80g"};
    std::string text = two(fmt::format("{:.3g} Mbps", 30 * std::pow(1000, random.uniform())), 1, "",
                           devices[round % 2]);
    const auto replace = [&](const std::string& from, const std::string& to) {
      for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    };
    if (round >= 8)
      text = with_oslo(text, fmt::format("{:.3g} Mbps", 30 * std::pow(1000, random.uniform())));
    const bool twelve = round >= 20;
    replace("devices_per_node = 8", twelve ? "devices_per_node = 4" : "devices_per_node = 2");
    replace("hidden = 2048", round % 3 == 0 ? "hidden = 2048" : "hidden = 8192");
    replace("layers = 8", fmt::format("layers = {}", 2 * (1 + random.below(3))));
    replace("sequence = 2048", "sequence = 8192");
    const auto open = plan::parse_open_job(text, "job.toml");
    ASSERT_TRUE(open) << open.error().text();
    for (const search::Objective objective : {search::Objective::kTime, search::Objective::kCost}) {
      const auto found =
          ways_across(*open, {.objective = objective, .count_steps = false, .break_even = false});
      ASSERT_TRUE(found) << found.error().text();
      const Way& best = found->ways.front();
      const double score =
          objective == search::Objective::kCost ? best.cost->value : best.iteration.value;
      const double forced = best_by_force(*open, objective);
      ASSERT_LT(forced, INFINITY);
      EXPECT_LE(score, forced * (1 + kTie)) << "round " << round << ", " << to_name(objective)
                                            << ": " << best.name << ", " << best.layout;
    }
  }
}

TEST(Ways, RefuseWhatTheyAsk) {
  EXPECT_THAT(
      ways(two("10 Gbps", 1,
               "[parallelism]\ndata = 2\ndatacenter_per_replica = [\"ashburn\", \"dublin\"]\n"))
          .error()
          .text(),
      HasSubstr("says where pipelines lie"));
}

TEST(ExchangeGrid, HasTheJobsOwnFirstAndNothingTwice) {
  plan::Exchange own{.mode = plan::ExchangeMode::kLocal};
  own.steps = 50;
  const auto grid = exchange_grid(own, {50, 30});
  EXPECT_EQ(grid.front(), own);
  for (size_t i = 0; i < grid.size(); ++i)
    EXPECT_EQ(std::count(grid.begin(), grid.end(), grid[i]), 1) << exchange_text(grid[i]);
  EXPECT_EQ(exchange_text(grid.front()), "local, 50 steps");
  EXPECT_EQ(exchange_text({}), "dense");
}

}  // namespace
}  // namespace tombolo::across
