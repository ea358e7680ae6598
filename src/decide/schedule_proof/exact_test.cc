// The proven optimum against brute force, closed forms, bounds and the figure of a paper.
#include "decide/schedule_proof/exact.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/random.h"
#include "spec/schedule/passes.h"
#include "support/test_times.h"

namespace tombolo::schedule_proof {
namespace {

using action::ActionKind;

// --- every order there is ------------------------------------------------------------------------

// One computation after the other, in all ways: of each stage every kind in the order of its
// microbatches, F before R before B, I before W, as validate asks for.
class RankOrders {
 public:
  RankOrders(const schedule::PipelineShape& shape, int32_t position, bool split, int64_t places)
      : places_(places), stages_(shape.stages_at(position)) {
    for (const int32_t stage : stages_) {
      std::vector<ActionKind>& kinds = kinds_.emplace_back();
      kinds.push_back(ActionKind::kForward);
      if (shape.recomputes(stage)) kinds.push_back(ActionKind::kRecompute);
      kinds.push_back(split ? ActionKind::kBackwardInput : ActionKind::kBackward);
      if (split) kinds.push_back(ActionKind::kBackwardWeight);
      done_.emplace_back(kinds.size(), 0);
    }
    total_ = 0;
    for (const auto& kinds : kinds_) total_ += kinds.size() * size_t(shape.microbatches);
    extend(shape.microbatches);
  }
  std::vector<schedule::RankActions> take() { return std::move(orders_); }

 private:
  void extend(int32_t microbatches) {
    if (order_.size() == total_) orders_.push_back(order_);
    for (size_t i = 0; i < kinds_.size(); ++i) {
      for (size_t k = 0; k < kinds_[i].size(); ++k) {
        int32_t& done = done_[i][k];
        if (done == microbatches || (k > 0 && done_[i][k - 1] == done)) continue;
        if (k == 0 && in_flight() == places_) continue;
        order_.push_back({kinds_[i][k], stages_[i], done});
        ++done;
        extend(microbatches);
        --done;
        order_.pop_back();
      }
    }
  }
  int64_t in_flight() const {
    int64_t sum = 0;
    for (const std::vector<int32_t>& done : done_) sum += done.front() - done.back();
    return sum;
  }

  int64_t places_;
  std::vector<int32_t> stages_;
  std::vector<std::vector<ActionKind>> kinds_;
  std::vector<std::vector<int32_t>> done_;
  size_t total_ = 0;
  schedule::RankActions order_;
  std::vector<schedule::RankActions> orders_;
};

// All orders in which a shared link can take its cell's transfers.
std::vector<std::vector<schedule::Transfer>> link_orders(const schedule::PipelineShape& shape) {
  std::vector<std::vector<schedule::Transfer>> out;
  std::vector<int32_t> done(size_t(shape.cell), 0);
  std::vector<schedule::Transfer> order;
  const std::function<void()> extend = [&] {
    if (order.size() == size_t(shape.cell) * size_t(shape.microbatches)) out.push_back(order);
    for (int32_t c = 0; c < shape.cell; ++c) {
      if (done[size_t(c)] == shape.microbatches) continue;
      order.push_back({c, done[size_t(c)]++});
      extend();
      order.pop_back();
      --done[size_t(c)];
    }
  };
  extend();
  return out;
}

// The shortest of all schedules that validate, one after the other.
SimDuration brute_force(const schedule::PipelineShape& shape, const schedule::Times& times,
                        const schedule::Memory& memory, bool split) {
  std::vector<std::vector<schedule::RankActions>> of_rank;
  for (int32_t rank = 0; rank < shape.ranks(); ++rank) {
    const int32_t position = rank / shape.replicas;
    const int64_t places = memory.in_flight.empty() ? -1 : memory.in_flight[size_t(position)];
    of_rank.push_back(RankOrders(shape, position, split, places).take());
  }
  const std::vector<std::vector<schedule::Transfer>> of_link = link_orders(shape);
  SimDuration best{INT64_MAX};
  std::vector<schedule::RankActions> compute;
  schedule::Schedule schedule{"tried", {}};
  const std::function<void(int32_t)> order_links = [&](int32_t boundary) {
    while (boundary + 1 < shape.stages && !shape.shares(boundary)) ++boundary;
    if (boundary + 1 >= shape.stages) {
      if (schedule::validate(schedule, shape))
        best = std::min(best, schedule::makespan_of(schedule, shape, times));
      return;
    }
    for (const auto& there : of_link) {
      for (const auto& back : of_link) {
        schedule.links.push_back({boundary, false, 0, there});
        schedule.links.push_back({boundary, true, 0, back});
        order_links(boundary + 1);
        schedule.links.resize(schedule.links.size() - 2);
      }
    }
  };
  const std::function<void()> order_ranks = [&] {
    if (compute.size() == of_rank.size()) {
      schedule.ranks = schedule::add_communication(compute, shape, schedule::RecomputeWhen::kAhead);
      schedule::add_update(schedule.ranks, shape);
      order_links(0);
      return;
    }
    for (const schedule::RankActions& order : of_rank[compute.size()]) {
      compute.push_back(order);
      order_ranks();
      compute.pop_back();
    }
  };
  order_ranks();
  return best;
}

// --- random instances ----------------------------------------------------------------------------

struct Instance {
  schedule::PipelineShape shape;
  schedule::Times times;
  schedule::Memory memory;
  bool split = false;
};

std::ostream& operator<<(std::ostream& out, const Instance& i) {
  out << i.shape.stages << " stages, " << i.shape.microbatches << " microbatches, "
      << i.shape.replicas << " pipelines, " << (i.split ? "split" : "whole") << ", in flight";
  for (const int32_t places : i.memory.in_flight) out << " " << places;
  for (size_t s = 0; s < i.times.stages.size(); ++s) {
    const schedule::StageDurations& d = i.times.stages[s];
    out << "; F " << d.forward.ns << " R " << (i.shape.recomputes(int32_t(s)) ? d.recompute.ns : 0)
        << " I " << d.backward_input.ns << " W " << d.backward_weight.ns;
    if (s + 1 == i.times.stages.size()) continue;
    out << (i.shape.shares(int32_t(s)) ? ", shared " : ", own ") << i.times.transfer[s].ns << " + "
        << i.times.latency[s].ns;
  }
  return out;
}

void draw_times(Random& random, Instance& instance) {
  const auto drawn = [&](int64_t min, int64_t max) {
    return SimDuration{min + int64_t(random.below(uint64_t(max - min + 1)))};
  };
  for (int32_t s = 0; s < instance.shape.stages; ++s) {
    instance.times.stages.push_back({drawn(1, 30), drawn(1, 30), drawn(1, 30), drawn(1, 30)});
    if (s + 1 == instance.shape.stages) continue;
    instance.times.transfer.push_back(drawn(0, 30));
    instance.times.latency.push_back(drawn(0, 20));
  }
}

Instance draw(Random& random, int32_t stages_max, int32_t microbatches_max) {
  Instance out;
  schedule::PipelineShape& shape = out.shape;
  shape.stages = 1 + int32_t(random.below(uint64_t(stages_max)));
  shape.microbatches = 1 + int32_t(random.below(uint64_t(microbatches_max)));
  shape.replicas = shape.cell = 1 + int32_t(random.below(2));
  for (int32_t s = 0; s < shape.stages; ++s) {
    shape.recompute.push_back(random.below(3) == 0 && s + 1 < shape.stages);
    if (s + 1 < shape.stages) shape.shared.push_back(random.below(2) == 0);
  }
  draw_times(random, out);
  if (random.below(2) == 0) {
    for (int32_t s = 0; s < shape.stages; ++s) {
      out.memory.in_flight.push_back(1 + int32_t(random.below(uint64_t(shape.microbatches))));
    }
  }
  out.split = random.below(2) == 0;
  return out;
}

Exact solved(const Instance& i) {
  return *solve_exact(i.shape, i.times, i.memory, {.split_backward = i.split});
}

// What must hold of every answer.
void check(const Instance& instance, const Exact& exact) {
  EXPECT_TRUE(exact.proven) << instance;
  EXPECT_EQ(exact.makespan, exact.bound);
  const Status sound = schedule::validate(exact.schedule, instance.shape);
  ASSERT_TRUE(sound) << sound.error().text() << "\n" << instance;
  EXPECT_EQ(schedule::makespan_of(exact.schedule, instance.shape, instance.times), exact.makespan);
  for (const LowerBound& bound :
       lower_bounds(instance.shape, instance.times, instance.memory, instance.split)) {
    EXPECT_GE(exact.makespan, bound.value) << bound.reason << "\n" << instance;
  }
  const std::vector<int64_t> peaks = schedule::peak_in_flight(exact.schedule);
  for (size_t rank = 0; rank < peaks.size() && !instance.memory.in_flight.empty(); ++rank) {
    EXPECT_LE(peaks[rank], instance.memory.in_flight[rank / size_t(instance.shape.replicas)]);
  }
}

TEST(ExactOracle, EqualsBruteForceOnOnePipeline) {
  Random random(1);
  for (int n = 0; n < 60; ++n) {
    Instance instance = draw(random, 3, 3);
    instance.shape.replicas = instance.shape.cell = 1;
    // Three stages in three or four kinds have millions of orders.
    if (instance.shape.stages == 3 && instance.shape.microbatches == 3) {
      instance.shape.recompute.clear();
      instance.split = false;
    }
    const Exact exact = solved(instance);
    check(instance, exact);
    EXPECT_EQ(exact.makespan,
              brute_force(instance.shape, instance.times, instance.memory, instance.split))
        << instance;
  }
}

TEST(ExactOracle, EqualsBruteForceWherePipelinesShareALink) {
  Random random(2);
  for (int n = 0; n < 30; ++n) {
    Instance instance = draw(random, 2, 2);
    instance.shape.replicas = instance.shape.cell = 2;
    if (instance.split) instance.shape.recompute.clear();
    const Exact exact = solved(instance);
    check(instance, exact);
    EXPECT_EQ(exact.makespan,
              brute_force(instance.shape, instance.times, instance.memory, instance.split))
        << instance;
  }
}

TEST(ExactOracle, EqualsBruteForceWithSeveralStagesPerRank) {
  Random random(3);
  for (int n = 0; n < 8; ++n) {
    Instance instance;
    instance.shape = schedule::shape_for(
        n % 2 == 0 ? layout::ScheduleKind::kInterleaved : layout::ScheduleKind::kZbV, 2,
        1 + n % 4 / 2);
    draw_times(random, instance);
    if (n >= 4) {
      for (int i = 0; i < 2; ++i) instance.memory.in_flight.push_back(2 + int32_t(random.below(3)));
    }
    const Exact exact = solved(instance);
    check(instance, exact);
    EXPECT_EQ(exact.makespan,
              brute_force(instance.shape, instance.times, instance.memory, instance.split))
        << instance;
  }
}

// Microbatches in any order, F before B: none is shorter than the shortest that keeps theirs.
std::vector<schedule::RankActions> any_orders(int32_t stage, int32_t microbatches) {
  schedule::RankActions actions;
  for (int32_t m = 0; m < microbatches; ++m) {
    actions.push_back({ActionKind::kForward, stage, m});
    actions.push_back({ActionKind::kBackward, stage, m});
  }
  std::sort(actions.begin(), actions.end());
  std::vector<schedule::RankActions> out;
  do {
    const auto place = [&](ActionKind kind, int32_t m) {
      return std::find(actions.begin(), actions.end(), action::Action{kind, stage, m});
    };
    bool fits = true;
    for (int32_t m = 0; m < microbatches; ++m) {
      fits = fits && place(ActionKind::kForward, m) < place(ActionKind::kBackward, m);
    }
    if (fits) out.push_back(actions);
  } while (std::next_permutation(actions.begin(), actions.end()));
  return out;
}

TEST(ExactOracle, OtherOrdersOfMicrobatchesAreNoShorter) {
  Random random(7);
  const schedule::PipelineShape shape{.stages = 2, .microbatches = 3};
  for (int n = 0; n < 4; ++n) {
    Instance instance{.shape = shape};
    draw_times(random, instance);
    SimDuration best{INT64_MAX};
    for (const schedule::RankActions& first : any_orders(0, 3)) {
      for (const schedule::RankActions& second : any_orders(1, 3)) {
        schedule::Schedule schedule{"tried", schedule::add_communication({first, second}, shape)};
        schedule::add_update(schedule.ranks, shape);
        if (!schedule::validate(schedule, shape)) continue;
        best = std::min(best, schedule::makespan_of(schedule, shape, instance.times));
      }
    }
    EXPECT_EQ(solved(instance).makespan, best) << instance;
  }
}

// Most of them in milliseconds; together some 7,000 guesses.
TEST(Exact, ProvesTwoHundredRandomInstances) {
  Random random(4);
  for (int n = 0; n < 200; ++n) {
    const Instance instance = draw(random, 4, 4);
    check(instance, solved(instance));
  }
}

// --- closed forms --------------------------------------------------------------------------------

// (m + p - 1)(f + b), where transfers are free: the last rank's work and what lies around it.
TEST(Exact, EqualStagesTakeAsLongAs1F1B) {
  for (int p = 1; p <= 4; ++p) {
    for (int m = 1; m <= 5; ++m) {
      const Instance instance{{p, m, {}},
                              schedule::equal_times(p, {slots(2), slots(2), slots(3), {}})};
      const Exact exact = solved(instance);
      check(instance, exact);
      EXPECT_EQ(exact.makespan, slots((m + p - 1) * 7)) << p << " " << m;
      // The same with as little memory as 1F1B needs.
      Instance limited = instance;
      for (int s = 0; s < p; ++s) limited.memory.in_flight.push_back(p - s);
      EXPECT_EQ(solved(limited).makespan, exact.makespan);
    }
  }
}

// Nothing idles but what lies before the last rank's first forward and behind its last I, where f =
// i = w: m 3 + (p - 1), from p microbatches on; the bubble that ZB-H1 leaves is (p-1)(f+i-w), too.
TEST(Exact, SplitBackwardsAreNoLongerThanZbH1) {
  for (int p = 2; p <= 4; ++p) {
    const Instance instance{
        {p, p, {}}, schedule::equal_times(p, {slots(1), slots(1), slots(1), {}}), {}, true};
    const Exact exact = solved(instance);
    check(instance, exact);
    EXPECT_EQ(exact.makespan, slots(3 * p + p - 1));
    const schedule::Schedule published =
        *schedule::build(layout::ScheduleKind::kZbH1, instance.shape);
    EXPECT_EQ(schedule::makespan_of(published, instance.shape, instance.times), exact.makespan);
  }
}

// --- Figure 6 of Atlas ---------------------------------------------------------------------------

// Six stages, two per datacenter; two pipelines of four microbatches; F = R = 1, B = 2; a transfer
// takes 1 with both pipelines' bandwidth; the last stage keeps its activations.
Instance figure_six() {
  Instance out;
  out.shape = {.stages = 6,
               .microbatches = 4,
               .recompute = {true, true, true, true, true, false},
               .replicas = 2,
               .cell = 2,
               .shared = {false, true, false, true, false}};
  out.times = schedule::equal_times(6, {slots(1), slots(1), slots(1), slots(1)});
  out.times.transfer = {slots(0), slots(1), slots(0), slots(1), slots(0)};
  return out;
}

// Varuna needs 38 slots there, Atlas 36 (player_test.cc). Nothing needs less than 33; and 34 where
// a rank keeps what it recomputed for one microbatch only.
TEST(Exact, FigureSixOfAtlas) {
  const Instance instance = figure_six();
  const Exact exact = solved(instance);
  check(instance, exact);
  EXPECT_EQ(exact.makespan, slots(33));
  const Exact strict =
      *solve_exact(instance.shape, instance.times, {}, {.recompute_right_before = true});
  check(instance, strict);
  EXPECT_EQ(strict.makespan, slots(34));
  for (const schedule::RankActions& order : strict.schedule.ranks) {
    const action::Action* recomputed = nullptr;
    for (const action::Action& action : order) {
      if (action::is_communication(action.kind)) continue;
      if (recomputed) {
        EXPECT_EQ(action, (action::Action{ActionKind::kBackward, recomputed->stage,
                                          recomputed->microbatch}));
      }
      recomputed = action.kind == ActionKind::kRecompute ? &action : nullptr;
    }
  }
}

// --- what changes nothing ------------------------------------------------------------------------

TEST(Exact, PipelinesAreAlike) {
  const Instance instance = figure_six();
  const Exact exact = solved(instance);
  schedule::Schedule swapped = exact.schedule;
  for (size_t rank = 0; rank < swapped.ranks.size(); rank += 2) {
    std::swap(swapped.ranks[rank], swapped.ranks[rank + 1]);
  }
  for (schedule::LinkOrder& link : swapped.links) {
    for (schedule::Transfer& transfer : link.transfers) transfer.replica = 1 - transfer.replica;
  }
  EXPECT_EQ(schedule::makespan_of(swapped, instance.shape, instance.times), exact.makespan);
}

// Cells have links of their own; pipelines that share nothing do not meet at all.
TEST(Exact, OneCellStandsForAll) {
  Random random(5);
  for (int n = 0; n < 20; ++n) {
    Instance instance = draw(random, 3, 3);
    const Exact one = solved(instance);
    instance.shape.replicas *= 3;
    const Exact three = solved(instance);
    check(instance, three);
    EXPECT_EQ(three.makespan, one.makespan) << instance;
    EXPECT_EQ(three.nodes, one.nodes);

    instance.shape.shared.clear();
    instance.shape.replicas = instance.shape.cell = 1;
    const Exact alone = solved(instance);
    instance.shape.replicas = instance.shape.cell = 4;
    EXPECT_EQ(solved(instance).makespan, alone.makespan) << instance;
  }
}

TEST(Exact, AllTimesTimesKTakeKTimesAsLong) {
  Random random(6);
  for (int n = 0; n < 20; ++n) {
    Instance instance = draw(random, 3, 4);
    const Exact exact = solved(instance);
    constexpr int64_t k = 1'000'003;
    for (schedule::StageDurations& d : instance.times.stages) {
      d = {d.forward * k, d.backward_input * k, d.backward_weight * k, d.recompute * k};
    }
    for (SimDuration& d : instance.times.transfer) d = d * k;
    for (SimDuration& d : instance.times.latency) d = d * k;
    EXPECT_EQ(solved(instance).makespan, exact.makespan * k) << instance;
  }
}

// Transfers, latencies, recomputations and weights that take no time at all, and boundaries that a
// cell shares for nothing.
TEST(Exact, WhatTakesNoTimeHasItsPlace) {
  Instance instance = figure_six();
  instance.shape.microbatches = 2;
  instance.times = schedule::equal_times(6, {slots(1), slots(2), slots(0), slots(0)});
  instance.split = true;
  const Exact exact = solved(instance);
  check(instance, exact);
  EXPECT_EQ(exact.makespan, slots((2 + 6 - 1) * 3));
}

// --- what goes wrong -----------------------------------------------------------------------------

// Whatever it was stopped at is a schedule, and no optimum lies below its bound.
TEST(Exact, StopsAfterSoManyNodes) {
  const Instance instance = figure_six();
  bool unproven = false;
  for (const int64_t nodes : {0, 1, 100, 300, 1000}) {
    const Exact stopped = *solve_exact(instance.shape, instance.times, {}, {.nodes_max = nodes});
    EXPECT_LE(stopped.nodes, nodes);
    EXPECT_TRUE(schedule::validate(stopped.schedule, instance.shape));
    EXPECT_EQ(schedule::makespan_of(stopped.schedule, instance.shape, instance.times),
              stopped.makespan);
    EXPECT_GE(stopped.makespan, slots(33));
    EXPECT_LE(stopped.bound, slots(33));
    EXPECT_EQ(stopped.proven, stopped.makespan == stopped.bound);
    unproven = unproven || !stopped.proven;
  }
  EXPECT_TRUE(unproven);
}

TEST(Exact, NeedsMemoryForOneMicrobatch) {
  const schedule::PipelineShape folded = schedule::shape_for(layout::ScheduleKind::kZbV, 2, 2);
  const schedule::Times times = schedule::equal_times(4, {slots(1), slots(1), slots(1), {}});
  EXPECT_TRUE(solve_exact(folded, times, {{2, 2}})->proven);
  const auto none = solve_exact(folded, times, {{2, 1}});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().exit_code(), 3);
  EXPECT_EQ(none.error().message,
            "rank 1 has memory for 1 microbatches in flight, and one on each of its stages is 2");
}

TEST(Exact, RefusesWhatIsTooLarge) {
  const auto large =
      solve_exact({60, 60, {}}, schedule::equal_times(60, {slots(1), slots(1), {}, {}}), {});
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().exit_code(), 2);
}

}  // namespace
}  // namespace tombolo::schedule_proof
