// The simulator equals the closed forms where they exist, to the nanosecond.
#include <gtest/gtest.h>

#include "predict/sim/simulate.h"
#include "support/toy_plan.h"

namespace tombolo {
namespace {

using testing::Toy;
using testing::toy_plan;

int64_t iteration_ns(const Toy& toy) {
  const Result<sim::Simulation> simulation = sim::simulate(toy_plan(toy));
  EXPECT_TRUE(simulation) << simulation.error().text();
  return simulation ? simulation->iteration.ns : -1;
}

Seconds nanoseconds(int64_t ns) { return Seconds{static_cast<double>(ns) * 1e-9}; }

// (M + P - 1)(f + b), for both: without transfers they differ in memory, not in time.
TEST(ClosedForms, PipelinesWithoutTransfers) {
  for (const char* schedule : {"1f1b", "gpipe"}) {
    for (const int64_t stages : {1, 2, 3, 4, 7}) {
      for (const int64_t microbatches : {1, 2, 3, 5, 16}) {
        for (const int64_t f : {1'000'000, 333'333}) {
          for (const int64_t b : {2'000'000, 700'001, 100'000}) {
            const int64_t simulated = iteration_ns({.schedule = schedule,
                                                    .stages = {stages},
                                                    .microbatches = microbatches,
                                                    .forward = {nanoseconds(f)},
                                                    .backward = {nanoseconds(b)}});
            EXPECT_EQ(simulated, (microbatches + stages - 1) * (f + b))
                << schedule << ": p=" << stages << " m=" << microbatches << " f=" << f
                << " b=" << b;
          }
        }
      }
    }
  }
}

// T = [P f + n w + (M-1) max(f,w)] + [P b + n w + (M-1) max(b,w)], n boundaries over the WAN.
TEST(ClosedForms, GpipeOverTheWan) {
  const std::vector<std::vector<int64_t>> placements = {{3},       {1, 1},       {2, 1},   {1, 3},
                                                        {2, 2, 2}, {1, 1, 1, 1}, {3, 1, 2}};
  int cases = 0;
  for (const std::vector<int64_t>& stages : placements) {
    for (const int64_t M : {1, 2, 4, 9}) {
      for (const int64_t f : {1, 3}) {
        for (const int64_t b : {2, 3}) {
          for (const int64_t w : {0, 1, 2, 5}) {
            int64_t P = 0;
            for (const int64_t count : stages) P += count;
            const auto n = static_cast<int64_t>(stages.size()) - 1;
            const auto half = [&](int64_t each) {
              return P * each + n * w + (M - 1) * (n > 0 ? std::max(each, w) : each);
            };
            const int64_t simulated = iteration_ns({.schedule = "gpipe",
                                                    .stages = stages,
                                                    .microbatches = M,
                                                    .forward = {f * 1_ms},
                                                    .backward = {b * 1_ms},
                                                    .transfer = w * 1_ms});
            EXPECT_EQ(simulated, (half(f) + half(b)) * 1'000'000)
                << "P=" << P << " n=" << n << " M=" << M << " f=" << f << " b=" << b << " w=" << w;
            ++cases;
          }
        }
      }
    }
  }
  EXPECT_EQ(cases, 7 * 4 * 2 * 2 * 4);
}

// Two stages, two microbatches, GPipe; a message is 1 MB, the link 1 Gbps (8 ms), 20 ms away.
//
//   stage 0  F0 0-1, F1 1-2       sends 1-9 (there at 29) and 9-17 (there at 37)
//   stage 1  F0 29-30, F1 37-38, B0 38-40, B1 40-42
//            sends 40-48 (there at 68) and 48-56 (there at 76)
//   stage 0  B0 68-70, B1 76-78
TEST(ClosedForms, LatencyAndRateByHand) {
  const Toy toy{.schedule = "gpipe",
                .stages = {1, 1},
                .microbatches = 2,
                .one_way_latency = 20_ms,
                .boundary_bytes = 1'000'000};
  const sim::Simulation simulation = *sim::simulate(toy_plan(toy));
  EXPECT_EQ(simulation.iteration.ns, 78'000'000);
  std::vector<std::string> drawn;
  for (const trace::Interval& interval : simulation.trace.intervals) {
    drawn.push_back(fmt::format("{} {}-{}", to_text(interval.action), interval.start.ns / 1'000'000,
                                interval.end.ns / 1'000'000));
  }
  EXPECT_EQ(drawn, (std::vector<std::string>{"0F0 0-1", "0F1 1-2", "0SEND_F0 1-29", "0SEND_F1 9-37",
                                             "1F0 29-30", "1F1 37-38", "1B0 38-40", "1B1 40-42",
                                             "1SEND_B0 40-68", "1U 42-42", "1SEND_B1 48-76",
                                             "0B0 68-70", "0B1 76-78", "0U 78-78"}));
  // Computing: 2 x (1 + 2) ms per rank. Messages are under way from 1 to 37 and from 40 to 76, so
  // rank 0, which computes from 0 to 2 and from 76 to 78, is idle from 37 to 40 only. Rank 1 is
  // idle from 0 to 1 and from 76 to 78; between 37 and 40 it computes.
  const trace::Parts& sum = simulation.breakdown.sum;
  EXPECT_EQ(sum.compute.ns, 12'000'000);
  EXPECT_EQ(sum.idle.ns, 3'000'000 + (1'000'000 + 2'000'000));
  EXPECT_EQ(sum.total().ns, 2 * 78'000'000);
}

// One connection with a 3 MB window over 2 x 20 ms: 75 MB/s. 7.5 MB take 100 ms, and 20 ms to
// arrive. Two connections could have 150 MB/s, but the pair's limit is 125: 60 ms; so for ten.
TEST(ClosedForms, WindowsCapAFlow) {
  const auto forward_only = [](int64_t connections) {
    const Toy toy{.schedule = "gpipe",
                  .stages = {1, 1},
                  .microbatches = 1,
                  .forward = {0_ms},
                  .backward = {0_ms},
                  .one_way_latency = 20_ms,
                  .tcp_window = 3_MB,
                  .connections = connections,
                  .boundary_bytes = 7'500'000};
    return iteration_ns(toy);
  };
  EXPECT_EQ(forward_only(1), 2 * 120'000'000);
  EXPECT_EQ(forward_only(2), 2 * 80'000'000);
  EXPECT_EQ(forward_only(10), 2 * 80'000'000);
}

// R stands right before B and waits for the gradient like B does; the last stage has none.
//   stage 0  F 0-1                    R 4-5, B 5-7
//   stage 1        F 1-2, B 2-4
TEST(ClosedForms, RecomputeWaitsForTheGradient) {
  EXPECT_EQ(iteration_ns({.stages = {2}, .microbatches = 1, .recompute = {1_ms}}), 7'000'000);
}

}  // namespace
}  // namespace tombolo
