// When things happen, by hand, and the closed forms of the published schedules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/schedule/ascii.h"
#include "spec/schedule/schedule.h"
#include "support/messages_sent.h"
#include "support/test_times.h"

namespace tombolo::schedule {
namespace {

using ::testing::ElementsAre;

constexpr SimDuration operator""_slots(unsigned long long n) {
  return {static_cast<int64_t>(n) * 1'000'000};
}

Bubble bubble(const std::string& name, const PipelineShape& shape, const StageDurations& each) {
  const Times times = equal_times(shape.stages, each);
  return bubble_of(evaluate(*build(*layout::find_schedule(name), shape, times), shape, times));
}

// Two stages, two microbatches, forward 1, backward 2, a transfer 3: rank 0 sends at 1 and at 4
// (the link is taken until then), rank 1 computes at 4-5, 5-7, 7-8, 8-10; its gradients arrive at
// 10 and at 13.
TEST(Evaluate, ByHand) {
  const PipelineShape shape{2, 2, {}};
  Times times = equal_times(2, {1_slots, 1_slots, 1_slots, {}});
  times.transfer = {3_slots};
  const trace::Trace trace = evaluate(*build(layout::ScheduleKind::k1F1B, shape), shape, times);
  EXPECT_EQ(draw_ascii(trace),
            "0 |01........aa.bb|\n"
            "1 |....0aa1bb.....|\n"
            "a column is 1 ms; 0-9 forward, a-j backward, A-J recompute of microbatch 0-9 (mod "
            "10), * update, . idle\n");
  // 15 slots, of which each rank works 6.
  EXPECT_EQ(bubble_of(trace).makespan, 15_slots);
  EXPECT_EQ(bubble_of(trace).idle, 9_slots);
  EXPECT_EQ(bubble_of(trace).inside, 9_slots);  // rank 0 begins and ends the iteration
  EXPECT_DOUBLE_EQ(bubble_of(trace).ratio, 0.6);
}

// Half of a backward belongs to the weights, unless a profile knows better.
TEST(Evaluate, HalvesOfABackward) {
  plan::StageCost cost{.forward = 1_ms, .backward = 3_ms};
  EXPECT_EQ(durations_of(cost).backward_weight.ns, 1'500'000);
  cost.backward_weight = 1_ms;
  EXPECT_EQ(durations_of(cost).backward_weight.ns, 1'000'000);
  EXPECT_EQ(durations_of(cost).backward_input.ns, 2'000'000);
}

// (p-1)/(m+p-1) of the time, for GPipe and 1F1B alike.
TEST(Evaluate, BubbleOf1F1B) {
  for (const char* name : {"gpipe", "1f1b"}) {
    for (int p = 1; p <= 6; ++p) {
      for (int m = 1; m <= 9; ++m) {
        EXPECT_DOUBLE_EQ(bubble(name, {p, m, {}}, {2_slots, 2_slots, 3_slots, {}}).ratio,
                         static_cast<double>(p - 1) / (m + p - 1));
      }
    }
  }
}

// --- interleaved
// -----------------------------------------------------------------------------------

// Megatron's first rank of two with two chunks: 2 (2-1-0) + (2-1) 2 = 4 forwards to warm up.
TEST(Interleaved, ByHand) {
  const PipelineShape shape = shape_for(layout::ScheduleKind::kInterleaved, 2, 4, 2);
  const Schedule schedule = *build(layout::ScheduleKind::kInterleaved, shape);
  std::string first;
  for (const action::Action& action : schedule.ranks[0]) {
    if (!action::is_communication(action.kind)) first += action::to_text(action) + " ";
  }
  EXPECT_EQ(first, "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3 0U 2U ");
}

// The bubble is (p-1)/v of one stage's f + b, where m is a multiple of p; here a rank's chunks take
// 2 + 4 together with v of them.
TEST(Interleaved, TheBubbleShrinksWithTheChunks) {
  for (int p = 2; p <= 5; ++p) {
    for (int v = 2; v <= 4; ++v) {
      for (int m = p; m <= 3 * p; m += p) {
        const StageDurations chunk{2_slots, 2_slots, 2_slots, {}};
        const Bubble out =
            bubble("interleaved", shape_for(layout::ScheduleKind::kInterleaved, p, m, v), chunk);
        EXPECT_EQ(out.idle, slots((p - 1) * 6)) << p << " " << v << " " << m;
        EXPECT_EQ(out.makespan, slots((m * v + p - 1) * 6));
      }
    }
  }
}

// 2 (p-1-r) + (v-1) p + 1 chunks; 4 ranks, 2 chunks: 11, 9, 7, 5. Messages: v p - 1 boundaries.
TEST(Interleaved, MemoryAndTraffic) {
  const Schedule schedule = *build(layout::ScheduleKind::kInterleaved,
                                   shape_for(layout::ScheduleKind::kInterleaved, 4, 8, 2));
  EXPECT_THAT(peak_in_flight(schedule), ElementsAre(11, 9, 7, 5));
  // Rank 0 sends 2 x 8 activations and 8 gradients (chunk 0 has none to send), the last one
  // 8 activations (chunk 1 has none) and 16 gradients; the others all 32.
  EXPECT_THAT(messages_sent(schedule), ElementsAre(24, 32, 32, 24));
}

// --- Varuna
// ----------------------------------------------------------------------------------------

// Atlas' figure 6: six stages, two per datacenter, four microbatches, F = R = 1, B = 2, a transfer
// over the WAN takes 2; 38 slots.
TEST(Varuna, FigureSixOfAtlas) {
  PipelineShape shape{6, 4, {true, true, true, true, true, false}};
  Times times = equal_times(6, {1_slots, 1_slots, 1_slots, 1_slots});
  times.transfer = {0_slots, 2_slots, 0_slots, 2_slots, 0_slots};
  const trace::Trace trace =
      evaluate(*build(layout::ScheduleKind::kVaruna, shape, times), shape, times);
  EXPECT_EQ(bubble_of(trace).makespan, 38_slots) << draw_ascii(trace);
}

// Both forwards come first, since no gradient is known of before 4; then the rank is free for R. It
// is not taken twice: after R only that backward may follow. Without a deadline an order starts as
// early as it can, so R0 ends at 3, although 7-8 would do.
TEST(Varuna, RecomputesAheadOfTheGradient) {
  const PipelineShape shape{2, 2, {true, false}};
  Times times = equal_times(2, {1_slots, 1_slots, 1_slots, 1_slots});
  times.transfer = {2_slots};
  EXPECT_THAT(
      draw_ascii(evaluate(*build(layout::ScheduleKind::kVaruna, shape, times), shape, times)),
      ::testing::StartsWith("0 |01A.....aaBbb|\n"
                            "1 |...0aa1bb....|\n"));
  // 1F1B recomputes when the gradient is there: one slot later.
  EXPECT_THAT(draw_ascii(evaluate(*build(layout::ScheduleKind::k1F1B, shape), shape, times)),
              ::testing::StartsWith("0 |01......AaaBbb|\n"
                                    "1 |...0aa1bb.....|\n"));
}

// --- zero bubble
// -----------------------------------------------------------------------------------

// (p-1)(f + I - W) of every rank's time, a third of 1F1B's (p-1)(f + I + W) for f = I = W.
TEST(ZeroBubble, H1LeavesAThirdOfTheBubble) {
  for (int p = 1; p <= 6; ++p) {
    for (int m = p; m <= 3 * p; ++m) {
      const Bubble out = bubble("zb-h1", {p, m, {}}, {1_slots, 1_slots, 1_slots, {}});
      EXPECT_EQ(out.idle, slots(p - 1)) << p << " " << m;
      EXPECT_EQ(bubble("1f1b", {p, m, {}}, {1_slots, 1_slots, 1_slots, {}}).idle,
                slots(3 * (p - 1)));
    }
  }
}

// Each stage as much as 1F1B's first.
TEST(ZeroBubble, H1HoldsAsMuchAs1F1B) {
  EXPECT_THAT(peak_in_flight(*build(layout::ScheduleKind::kZbH1, {4, 9, {}})),
              ElementsAre(4, 4, 4, 4));
}

// No rank idles between its first forward and its last weight half; with 2p chunks of half the
// size.
TEST(ZeroBubble, VHasNoBubbleInside) {
  for (int p = 1; p <= 6; ++p) {
    for (int m = 2 * p - 1; m <= 3 * p; ++m) {
      const PipelineShape shape = shape_for(layout::ScheduleKind::kZbV, p, m);
      EXPECT_EQ(bubble("zb-v", shape, {1_slots, 1_slots, 1_slots, {}}).inside, 0_slots);
      EXPECT_THAT(peak_in_flight(*build(layout::ScheduleKind::kZbV, shape)),
                  ::testing::Each(::testing::Le(2 * p)));
    }
  }
}

// --- W-shape
// ---------------------------------------------------------------------------------------

// (p-1) max(f, b) of a rank's layers, each of whose two chunks takes half; 1F1B's is (p-1)(f + b).
TEST(WShape, Bubble) {
  for (int p = 1; p <= 5; ++p) {
    for (int m = p; m <= 3 * p; ++m) {
      for (const auto& [f, b] : {std::pair{1, 1}, {1, 2}, {3, 1}, {5, 8}}) {
        const Bubble out = bubble("w", shape_for(layout::ScheduleKind::kW, p, m),
                                  {slots(f), slots(b), 0_slots, {}});
        EXPECT_EQ(out.idle, slots((p - 1) * 2 * std::max(f, b))) << p << " " << m;
      }
    }
  }
}

TEST(WShape, MemoryAndTraffic) {
  const Schedule schedule =
      *build(layout::ScheduleKind::kW, shape_for(layout::ScheduleKind::kW, 4, 12));
  EXPECT_THAT(peak_in_flight(schedule), ElementsAre(9, 9, 9, 9));
  // Twice that of 1F1B: each rank passes every microbatch on down and up, both ways.
  EXPECT_THAT(messages_sent(schedule), ElementsAre(24, 48, 48, 24));
}

// --- DualPipeV
// -------------------------------------------------------------------------------------

// Published: (p-1)(F&B + B - 3 W), where a pair is one block of F&B = F + B. With its passes one
// after the other, a pair lets other ranks continue before its end: (p-1)(f + i - w) where f >= i
// >= w.
TEST(DualPipeV, Bubble) {
  for (int p = 1; p <= 5; ++p) {
    for (int m = 2 * p; m <= 3 * p; ++m) {
      for (const auto& [f, i, w] : {std::tuple{1, 1, 1}, {2, 1, 1}, {3, 2, 1}, {6, 4, 4}}) {
        const Bubble out = bubble("dualpipev", shape_for(layout::ScheduleKind::kDualPipeV, p, m),
                                  {slots(f), slots(i), slots(w), {}});
        EXPECT_EQ(out.idle, slots((p - 1) * (f + i - w))) << p << " " << m;
      }
    }
  }
}

// Published: p + 1 stages' worth, 2 (p + 1) chunks; one of them is not needed.
TEST(DualPipeV, Memory) {
  const Schedule schedule =
      *build(layout::ScheduleKind::kDualPipeV, shape_for(layout::ScheduleKind::kDualPipeV, 4, 12));
  EXPECT_THAT(peak_in_flight(schedule), ElementsAre(9, 9, 9, 9));
  EXPECT_THAT(messages_sent(schedule), ElementsAre(24, 48, 48, 24));
}

}  // namespace
}  // namespace tombolo::schedule
