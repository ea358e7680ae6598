#include "decide/schedule_search/best_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "spec/plan/plan_file.h"
#include "spec/schedule/schedule.h"

namespace tombolo::schedule_search {
namespace {

using ::testing::HasSubstr;

// Stages of 1 ms forward and 2 ms backward, two in each datacenter; a transfer takes 3 ms, and 2 ms
// more to be there.
struct Setting {
  std::vector<std::string> datacenters = {"oregon", "paris"};
  int64_t microbatches = 6;
  int64_t data = 1;
  int64_t in_flight = 4;
  std::string times =
      "forward = \"1 ms\"\nbackward = \"2 ms\"\ntransfer = \"3 ms\"\nlatency = \"2 ms\"\n";
};

plan::Plan plan_of(const Setting& setting) {
  std::string text;
  for (const std::string& name : setting.datacenters) {
    text += fmt::format("[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"a100-80g\"\nnodes = 8\n",
                        name);
  }
  for (size_t i = 1; i < setting.datacenters.size(); ++i) {
    text += fmt::format(
        "[[cluster.wan]]\nbetween = [\"{}\", \"{}\"]\none_way_latency = \"9 ms\"\n"
        "node_pair_limit = \"5 Gbps\"\n",
        setting.datacenters[i - 1], setting.datacenters[i]);
  }
  text += fmt::format(
      "[training]\nglobal_batch = {}\n[parallelism]\npipeline = {}\ndata = {}\n[stage_times]\n{}",
      setting.microbatches * setting.data, 2 * setting.datacenters.size(), setting.data,
      setting.times);
  if (setting.in_flight > 0) text += fmt::format("in_flight = {}\n", setting.in_flight);
  const Result<plan::Job> job = plan::parse_job(text, "job.toml");
  EXPECT_TRUE(job) << job.error().text();
  const Result<plan::Plan> plan = cost::make_plan(*job);
  EXPECT_TRUE(plan) << plan.error().text();
  return *plan;
}

BestSchedule best_of(const Setting& setting, BestScheduleOptions options = {}) {
  options.passes_max = 200'000;
  const Result<BestSchedule> best = best_schedule(plan_of(setting), options);
  EXPECT_TRUE(best) << best.error().text();
  return *best;
}

const ScheduleCandidate& find(const BestSchedule& best, const std::string& name) {
  for (const ScheduleCandidate& candidate : best.candidates) {
    if (candidate.name == name) return candidate;
  }
  ADD_FAILURE() << "no candidate " << name;
  return best.winner();
}

TEST(BestSchedule, IsNoWorseThanAnyCandidateAndNoBetterThanTheBound) {
  for (const int64_t data : {1, 2}) {
    for (const int64_t in_flight : {1, 2, 4, 8}) {
      const BestSchedule best = best_of({.data = data, .in_flight = in_flight});
      for (const ScheduleCandidate& candidate : best.candidates) {
        EXPECT_EQ(candidate.makespan.has_value(), candidate.obstacle.empty()) << candidate.name;
        if (!candidate.makespan) continue;
        EXPECT_LE(best.iteration(), *candidate.makespan) << candidate.name;
        EXPECT_LE(*candidate.in_flight, in_flight) << candidate.name;
        // Imagined transfers take as long however many there are: both clocks agree.
        EXPECT_EQ(candidate.iteration, candidate.makespan) << candidate.name;
      }
      EXPECT_GE(best.iteration(), best.bound.value);
      ASSERT_TRUE(best.baseline());
      EXPECT_TRUE(best.baseline()->is_published);
      EXPECT_FALSE(best.unsplit()->splits);
    }
  }
}

// Eight pipelines over one node pair. By its own clock each schedule has 5 Gbps for every pipeline,
// so the one that is shortest alone is not the one that is shortest.
TEST(BestSchedule, RanksByWhatIsSimulatedWhereTheySharePaths) {
  const Result<plan::Job> job = plan::parse_job(
      "[model]\nlayers = 8\nhidden = 1024\nheads = 8\nvocabulary = 1000\nsequence = 512\n"
      "[[cluster.datacenter]]\nname = \"a\"\ndevice = \"a100-80g\"\nnodes = 1\n"
      "devices_per_node = 8\n"
      "[[cluster.datacenter]]\nname = \"b\"\ndevice = \"a100-80g\"\nnodes = 1\n"
      "devices_per_node = 8\n"
      "[[cluster.wan]]\nbetween = [\"a\", \"b\"]\none_way_latency = \"1 ms\"\n"
      "node_pair_limit = \"5 Gbps\"\n"
      "[training]\nglobal_batch = 64\nmicro_batch = 1\n"
      "[parallelism]\npipeline = 2\ndata = 8\n",
      "job.toml");
  ASSERT_TRUE(job) << job.error().text();
  const Result<plan::Plan> plan = cost::make_plan(*job);
  ASSERT_TRUE(plan) << plan.error().text();
  const Result<BestSchedule> best = best_schedule(*plan, {.passes_max = 50'000});
  ASSERT_TRUE(best) << best.error().text();
  int delayed = 0;
  for (size_t i = 0; i + 1 < best->candidates.size(); ++i) {
    const ScheduleCandidate& candidate = best->candidates[i];
    const ScheduleCandidate& next = best->candidates[i + 1];
    if (!next.iteration) break;
    EXPECT_LE(*candidate.iteration, *next.iteration) << next.name;
    delayed += candidate.variant.sharing == layout::Sharing::kSpatial &&
               candidate.iteration->ns > 2 * candidate.makespan->ns;
  }
  EXPECT_GE(delayed, 3);  // else the two clocks differ nowhere
  for (const std::string& name : layout::schedule_names()) {
    const Result<plan::Plan> named = with_schedule(*plan, *layout::find_schedule(name));
    ASSERT_TRUE(named) << named.error().text();
    const Result<sim::Simulation> simulation = sim::simulate(*named);
    ASSERT_TRUE(simulation) << simulation.error().text();
    EXPECT_LE(*best->baseline()->iteration, simulation->iteration) << name;
  }
}

TEST(BestSchedule, ThePlanPerformsIt) {
  const BestSchedule best = best_of({.data = 2});
  const Result<plan::Plan> again = plan::parse_plan(plan::to_json_text(best.plan), "plan.json");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(*again, best.plan);
  const Result<sim::Simulation> simulation = sim::simulate(*again);
  ASSERT_TRUE(simulation) << simulation.error().text();
  EXPECT_EQ(simulation->iteration, best.iteration());
  EXPECT_TRUE(schedule::check_memory(*again, *schedule::build(*again)));
}

TEST(BestSchedule, WithinOneDatacenterOneForwardOneBackwardCannotBeBeatenUnsplit) {
  // Two stages, 6 microbatches: (6 + 2 - 1)(1 + 2) ms, and no order does better with whole
  // backwards on a line: the last backward of the first stage ends (p - 1)(f + b) after 6 (f + b).
  const BestSchedule best =
      best_of({.datacenters = {"oregon"}, .in_flight = 2}, {.split_backward = false});
  EXPECT_EQ(find(best, "1f1b").makespan, SimDuration{21'000'000});
  for (const ScheduleCandidate& candidate : best.candidates) EXPECT_FALSE(candidate.splits);
  // Folds may do better: their bubble is that of half the stages.
  EXPECT_LE(best.iteration(), SimDuration{21'000'000});
}

// (6 + 2 - 1)(1 + 2) ms again: what the search says is proven, by a solver that shares nothing with
// it but the shape.
TEST(Prove, OneForwardOneBackwardIsTheShortestOnALine) {
  const BestSchedule best = best_of({.datacenters = {"oregon"}, .microbatches = 6, .in_flight = 2},
                                    {.split_backward = false});
  const auto exact = prove(best, false);
  ASSERT_TRUE(exact) << exact.error().text();
  EXPECT_TRUE(exact->proven);
  EXPECT_EQ(exact->makespan, *best.winner().makespan);
}

TEST(Prove, NothingIsShorterThanWhatItSaysAndTheSearchIsCloseToIt) {
  Random random(15);
  int proven = 0, met = 0;
  for (int i = 0; i < 12; ++i) {
    Setting setting{.microbatches = 2 + static_cast<int64_t>(random.below(4)),
                    .data = 1 + static_cast<int64_t>(random.below(2)),
                    .in_flight = 2 + static_cast<int64_t>(random.below(3))};
    setting.times = fmt::format(
        "forward = \"{} ms\"\nbackward = \"{} ms\"\ntransfer = \"{} ms\"\nlatency = \"{} ms\"\n",
        1 + random.below(3), 2 + random.below(4), random.below(4), random.below(3));
    const bool split = random.below(2) == 0;
    SCOPED_TRACE(fmt::format("{} microbatches, {} pipelines, {} in flight, split {}\n{}",
                             setting.microbatches, setting.data, setting.in_flight, split,
                             setting.times));
    const BestSchedule best = best_of(setting, {.split_backward = split});
    const auto exact = prove(best, split, 20'000);
    ASSERT_TRUE(exact) << exact.error().text();
    EXPECT_LE(exact->bound, *best.winner().makespan);
    EXPECT_GE(exact->makespan, best.bound.value);
    proven += exact->proven;
    met += exact->proven && exact->makespan == *best.winner().makespan;
  }
  EXPECT_GE(proven, 9);
  EXPECT_GE(met, 6);
}

TEST(Prove, SaysHowMuchIsTooMuch) {
  const BestSchedule best = best_of({.microbatches = 96, .data = 1});
  const auto exact = prove(best, true);
  ASSERT_FALSE(exact);
  EXPECT_EQ(exact.error().exit_code(), 2);
  EXPECT_DEATH(static_cast<void>(prove({}, true)), "the proof of no schedule");
}

TEST(BestSchedule, EveryPositionHasTheSameWorkInEveryFamily) {
  const Setting setting{.times =
                            "forward = [\"1 ms\", \"3 ms\", \"1 ms\", \"2 ms\"]\n"
                            "backward = [\"2 ms\", \"5 ms\", \"2 ms\", \"4 ms\"]\n"};
  const plan::Plan line = plan_of(setting);
  for (const ScheduleVariant& variant :
       {ScheduleVariant{.schedule = layout::ScheduleKind::kZbV, .chunks = 2},
        ScheduleVariant{.schedule = layout::ScheduleKind::kGpipe}}) {
    const Result<plan::Plan> other = vary(line, variant);
    ASSERT_TRUE(other) << other.error().text();
    EXPECT_EQ(work_of(*other), work_of(line)) << to_name(variant.schedule);
  }
}

TEST(BestSchedule, TheLastChunkAloneDoesNotRecompute) {
  const plan::Plan line =
      plan_of({.times = "forward = \"2 ms\"\nbackward = \"4 ms\"\nrecompute = \"2 ms\"\n"});
  const Result<plan::Plan> folded =
      vary(line, {.schedule = layout::ScheduleKind::kZbV, .chunks = 2});
  ASSERT_TRUE(folded) << folded.error().text();
  ASSERT_EQ(folded->stages.size(), 8U);
  for (size_t s = 0; s < 8; ++s) {
    EXPECT_EQ(folded->stages[s].cost.forward, 1_ms);
    EXPECT_EQ(folded->stages[s].cost.recompute, s < 7 ? 1_ms : 0_ms) << s;
  }
}

TEST(BestSchedule, WhatDoesNotFitSaysHowMuchItNeeds) {
  const BestSchedule best = best_of({.microbatches = 8, .in_flight = 3});
  EXPECT_THAT(find(best, "1f1b").obstacle,
              HasSubstr("4 microbatches at position 0, which has it for 3"));
  EXPECT_THAT(find(best, "gpipe").obstacle, HasSubstr("8 microbatches"));
  // Varuna takes in what comes; within the memory it is not what is published.
  EXPECT_TRUE(find(best, "varuna, kept to the memory").iteration);
  EXPECT_FALSE(find(best, "varuna, kept to the memory").is_published);
}

TEST(BestSchedule, LoopsOverSeveralDatacentersNeedALinkBack) {
  const BestSchedule best = best_of({.datacenters = {"oregon", "paris", "tokyo"}});
  EXPECT_THAT(find(best, "interleaved, 2 stages per rank").obstacle,
              HasSubstr("no WAN link between tokyo and oregon"));
}

TEST(BestSchedule, TimesThatAreAllLongerMakeItLongerByTheSame) {
  const Setting setting{.data = 2};
  Setting slower = setting;
  slower.times =
      "forward = \"5 ms\"\nbackward = \"10 ms\"\ntransfer = \"15 ms\"\nlatency = \"10 ms\"\n";
  const BestSchedule one = best_of(setting);
  const BestSchedule five = best_of(slower);
  EXPECT_EQ(five.iteration().ns, 5 * one.iteration().ns);
  EXPECT_EQ(five.winner().name, one.winner().name);
}

TEST(BestSchedule, NamesOfDatacentersChangeNothing) {
  const BestSchedule one = best_of({.data = 2});
  const BestSchedule other = best_of({.datacenters = {"zurich", "accra"}, .data = 2});
  EXPECT_EQ(one.iteration(), other.iteration());
  EXPECT_EQ(one.winner().name, other.winner().name);
}

TEST(BestSchedule, MemoryForNothingIsInfeasible) {
  plan::Plan plan = plan_of({});
  plan.in_flight = 0;
  const Result<BestSchedule> best = best_schedule(plan, {.passes_max = 1000});
  ASSERT_FALSE(best);
  EXPECT_EQ(best.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(best.error().message, HasSubstr("position 0"));
}

// One model, folded on two positions; a layer forward and one backward take 1 ms instead of 1.5 ms.
TEST(BestSchedule, TriesPairsWhereItIsKnownHowLongTheyTake) {
  Setting setting{.datacenters = {"oregon"}, .microbatches = 8, .in_flight = 0};
  setting.times = "forward = \"1 ms\"\nbackward = \"2 ms\"\n";
  const plan::LayerPair layer{
      .apart = 1.5_ms, .together = 1_ms, .forward_end = 1_ms, .backward_end = 1_ms};
  const BestSchedule best = best_of(setting, {.layer_pair = layer});
  // Half a stage has a layer: f = 0.5 ms, i = w = 0.5 ms, and pairs of 1 ms. P = 2, M = 8.
  EXPECT_EQ(find(best, "w, overlapped F&B").iteration, round_to_ns(20_ms));  // 14 + 4 x 1.5
  EXPECT_EQ(find(best, "dualpipev, overlapped F&B").iteration,
            round_to_ns(18.5_ms));  // 24 - 12 x 0.5 + 1 + 1 - 1.5
  EXPECT_EQ(best.winner().name, "dualpipev, overlapped F&B");
  EXPECT_FALSE(best.winner().is_published);
  EXPECT_EQ(best.plan.pairs.size(), 4u);
  EXPECT_LE(best.bound.value, best.iteration());
  EXPECT_EQ(sim::simulate(best.plan)->iteration, best.iteration());
  EXPECT_THAT(best.why, ::testing::Contains(HasSubstr("run concurrently")));
  EXPECT_THAT(prove(best, true).error().text(), HasSubstr("the Plan has pairs"));
  // Without splitting backwards there is W alone.
  const BestSchedule whole = best_of(setting, {.split_backward = false, .layer_pair = layer});
  EXPECT_EQ(whole.winner().name, "w, overlapped F&B");
  // A Plan's own pairs.
  plan::Plan folded = best.plan;
  for (plan::PairCost& pair : folded.pairs) pair.forward_end = pair.backward_end = 1.25_ms;
  const BestSchedule again = *best_schedule(folded, {.passes_max = 200'000});
  EXPECT_EQ(find(again, "w, overlapped F&B").iteration, round_to_ns(23.5_ms));  // 17.5 + 6
}

// Chunks of 0.4, 0.6 and 0.3 ms, pairs of 1.2 ms: published orders leave something, in two pipelines.
TEST(BestSchedule, SearchesPairs) {
  Setting setting{.datacenters = {"oregon"}, .microbatches = 6, .data = 2, .in_flight = 0};
  setting.times = "forward = \"0.8 ms\"\nbackward = \"1.8 ms\"\nbackward_weight = \"0.6 ms\"\n";
  const plan::LayerPair layer{
      .apart = 1.3_ms, .together = 1.2_ms, .forward_end = 1.2_ms, .backward_end = 1.2_ms};
  const BestSchedule best = best_of(setting, {.passes_max = 200'000, .layer_pair = layer});
  const ScheduleCandidate& found = find(best, "found: dualpipev with pairs, improved");
  EXPECT_LT(*found.iteration, *find(best, "w, overlapped F&B").iteration);
  EXPECT_LT(*found.iteration, *find(best, "dualpipev, overlapped F&B").iteration);
  EXPECT_EQ(found.iteration, found.makespan);
  const BestSchedule whole =
      best_of(setting, {.split_backward = false, .passes_max = 200'000, .layer_pair = layer});
  for (const ScheduleCandidate& each : whole.candidates) EXPECT_FALSE(each.splits) << each.name;
}

}  // namespace
}  // namespace tombolo::schedule_search
