#include "predict/engine/fluid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/random.h"
#include "support/max_min_certificate.h"

namespace tombolo::engine {
namespace {

using Completions = std::vector<Completion>;

// Runs to the end and returns every completion.
Completions drain(FluidNetwork& network) {
  Completions out;
  while (const auto next = network.next_completion()) {
    for (const Completion& done : network.finish(*next)) out.push_back(done);
  }
  return out;
}

TEST(Fluid, ASingleFlowTakesBytesOverRate) {
  // 1 MB at 1 Gbps = 125e6 B/s: 8 ms to the nanosecond.
  FluidNetwork network({Link{1_Gbps}});
  network.start({500}, 1_MB, {{0}});
  EXPECT_EQ(drain(network), (Completions{{0, {8'000'500}}}));
  EXPECT_EQ(network.delivered(0), 1_MB);
}

// 1 MB at 1 MB/s: half of it in 0.5 s; at a quarter of the rate another 0.25 MB in 1 s; nothing for 3 s; and the
// last quarter at 2 MB/s in 0.125 s.
TEST(Fluid, ACapacityThatChangesCountsFromThenOn) {
  FluidNetwork network({Link{1_MBps}});
  const FlowId flow = network.start({0}, 1_MB, {{0}});
  EXPECT_EQ(network.next_completion(), SimTime{1'000'000'000});
  network.set_capacity({500'000'000}, 0, BytesPerSecond{250e3});
  EXPECT_DOUBLE_EQ(network.rate(flow).value, 250e3);
  EXPECT_EQ(network.next_completion(), SimTime{2'500'000'000});
  network.set_capacity({1'500'000'000}, 0, {});
  EXPECT_EQ(network.next_completion(), std::nullopt);
  EXPECT_TRUE(network.finish({4'000'000'000}).empty());
  network.set_capacity({4'500'000'000}, 0, 2_MBps);
  EXPECT_EQ(drain(network), (Completions{{flow, {4'625'000'000}}}));
  EXPECT_EQ(network.delivered(0), 1_MB);
}

// It takes turns with a flow that has it alone: only what meets on the link changes.
TEST(Fluid, FlowsElsewhereKeepTheirRates) {
  FluidNetwork network({Link{1_MBps}, Link{1_MBps}});
  network.start({0}, 1_MB, {{0}});
  const FlowId other = network.start({0}, 1_MB, {{1}});
  network.set_capacity({0}, 0, BytesPerSecond{500e3});
  EXPECT_DOUBLE_EQ(network.rate(other).value, 1e6);
  EXPECT_EQ(drain(network), (Completions{{other, {1'000'000'000}}, {0, {2'000'000'000}}}));
}

TEST(Fluid, CompletionsRoundUp) {
  // 10 B at 3 B/s: 3 333 333 333.3 ns.
  FluidNetwork network({Link{{3}}});
  network.start({0}, 10_B, {{0}});
  EXPECT_EQ(network.next_completion(), SimTime{3'333'333'334});
}

// Whole numbers of nanoseconds must not become one more through the rounding of a division.
TEST(Fluid, ExactSpansStayExact) {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const auto bytes_per_ns = static_cast<int64_t>(1 + random.below(400));
    const auto ns = static_cast<int64_t>(1 + random.below(100'000'000'000));
    FluidNetwork network({Link{{static_cast<double>(bytes_per_ns) * 1e9}}});
    network.start({0}, {static_cast<double>(bytes_per_ns * ns)}, {{0}});
    ASSERT_EQ(network.next_completion(), SimTime{ns}) << bytes_per_ns << " B/ns";
  }
}

TEST(Fluid, TwoFlowsShareALinkAndTheRestSpeedsUp) {
  // 1 GB/s. A (1 MB) and B (3 MB) run at 0.5 GB/s until A ends at 2 ms; B has 2 MB left: 4 ms.
  FluidNetwork network({Link{1_GBps}});
  network.start({0}, 1_MB, {{0}});
  network.start({0}, 3_MB, {{0}});
  EXPECT_EQ(network.rate(0), BytesPerSecond{0.5e9});
  EXPECT_EQ(network.next_completion(), SimTime{2'000'000});
  EXPECT_EQ(network.finish({2'000'000}), (Completions{{0, {2'000'000}}}));
  EXPECT_EQ(network.rate(1), 1_GBps);
  EXPECT_EQ(drain(network), (Completions{{1, {4'000'000}}}));
  EXPECT_EQ(network.delivered(0), 4_MB);
}

TEST(Fluid, StaggeredArrivals) {
  // 1 GB/s. A (4 MB) from 0; B (1 MB) from 1 ms; C (1 MB) from 2 ms.
  //   0-1 ms  A alone: 3 MB left.            1-2 ms  A, B at 1/2: A 2.5, B 0.5 left.
  //   2 ms on A, B, C at 1/3: B ends after 1.5 ms at 3.5 ms; A 2.0, C 0.5 left.
  //   then 1/2 each: C ends 1 ms later at 4.5 ms, A 1.5 left; A alone ends at 6 ms.
  FluidNetwork network({Link{1_GBps}});
  network.start({0}, 4_MB, {{0}});
  network.start({1'000'000}, 1_MB, {{0}});
  network.start({2'000'000}, 1_MB, {{0}});
  const Completions done = drain(network);
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[0].flow, 1u);
  EXPECT_NEAR(done[0].time.ns, 3'500'000, 1);
  EXPECT_EQ(done[1].flow, 2u);
  EXPECT_NEAR(done[1].time.ns, 4'500'000, 2);
  EXPECT_EQ(done[2].flow, 0u);
  EXPECT_NEAR(done[2].time.ns, 6'000'000, 3);
}

TEST(Fluid, TheNarrowLinkOfAPathAndTheCapDecide) {
  // Node pair 5 Gbps = 625e6 B/s, path 400 Gbps; one connection of 3 MB at 80 ms: 37.5e6 B/s.
  // 3.75 MB take 100 ms; the second flow on its own node pair does not notice.
  FluidNetwork network({Link{5_Gbps}, Link{5_Gbps}, Link{400_Gbps}});
  network.start({0}, Bytes{3.75e6}, {{0, 2}, 1, 3_MB / 80_ms});
  network.start({0}, Bytes{62.5e6}, {{1, 2}});
  EXPECT_EQ(drain(network), (Completions{{0, {100'000'000}}, {1, {100'000'000}}}));
}

TEST(Fluid, FlowsOfOtherLinksAreLeftAlone) {
  // Thirds are not exact in binary. A's completion must not depend on how often strangers come.
  FluidNetwork alone({Link{{3}}, Link{{7}}});
  alone.start({0}, 1_MB, {{0}});
  const auto expected = alone.next_completion();
  FluidNetwork crowded({Link{{3}}, Link{{7}}});
  crowded.start({0}, 1_MB, {{0}});
  for (int64_t i = 0; i < 300; ++i) crowded.start({i * 17}, 1_KB, {{1}});
  EXPECT_EQ(drain(crowded).back(), (Completion{0, *expected}));
}

TEST(Fluid, NothingToSendEndsAtOnceAndADeadLinkNever) {
  FluidNetwork network({Link{{0}}});
  network.start({5}, 0_B, {{0}});
  network.start({5}, 1_B, {{0}});
  EXPECT_EQ(drain(network), (Completions{{0, {5}}}));
  EXPECT_EQ(network.active(), 1u);
}

TEST(Fluid, WhatStartsAtOneInstantIsAskedForOnce) {
  // A thousand flows of 1 kB share 1 GB/s: 1 us each alone, 1 ms all together, whoever asks
  // in between.
  FluidNetwork asked({Link{1_GBps}});
  FluidNetwork quiet({Link{1_GBps}});
  for (int i = 0; i < 1000; ++i) {
    asked.start({0}, 1_KB, {{0}});
    EXPECT_EQ(asked.next_completion(), SimTime{1000 * (i + 1)});
    quiet.start({0}, 1_KB, {{0}});
  }
  const Completions done = drain(quiet);
  EXPECT_EQ(done, drain(asked));
  ASSERT_EQ(done.size(), 1000u);
  EXPECT_EQ(done[0], (Completion{0, {1'000'000}}));
  EXPECT_EQ(done[999], (Completion{999, {1'000'000}}));
}

TEST(Fluid, WhatEndedBeforeANewStartIsStillTold) {
  FluidNetwork network({Link{{1e9}}});
  network.start({0}, 10_B, {{0}});                     // ends at 10 ns
  network.start({100}, 10_B, {{0}});                   // nobody asked in between
  EXPECT_EQ(network.next_completion(), SimTime{100});  // it can be told at once
  EXPECT_EQ(network.rate(1), BytesPerSecond{1e9});
  EXPECT_EQ(network.finish({100}), (Completions{{0, {10}}}));
  EXPECT_EQ(network.next_completion(), SimTime{110});
}

// Random traffic: rates are max-min fair at every moment, every flow ends, no link carries more
// than its capacity times the time, and what a link has delivered is exactly what its flows
// brought.
TEST(Fluid, BytesAreConservedAndLinksNotOverdriven) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<Link> links;
    for (int i = 0; i < 4; ++i) links.push_back({{1e6 * static_cast<double>(1 + random.below(9))}});
    FluidNetwork network(links);
    std::vector<double> brought(links.size());
    std::map<FlowId, Flow> flows;  // those under way
    std::vector<Completion> ended;
    const auto finish = [&](SimTime now) {
      for (const Completion& done : network.finish(now)) {
        flows.erase(done.flow);
        ended.push_back(done);
      }
      std::vector<Flow> active;
      std::vector<BytesPerSecond> rates;
      for (const auto& [id, flow] : flows) {
        active.push_back(flow);
        rates.push_back(network.rate(id));
      }
      EXPECT_TRUE(check_max_min(active, links, rates)) << "at " << now.ns << " ns";
    };
    std::vector<SimTime> started;
    std::vector<double> alone;  // seconds, with every link to itself
    SimTime now;
    for (int i = 0; i < 40; ++i) {
      now = now + SimDuration{static_cast<int64_t>(random.below(300'000))};
      Flow flow{{static_cast<uint32_t>(random.below(4))}};
      if (random.below(2)) flow.links.push_back((flow.links[0] + 1) % 4);
      flow.weight = 1 + static_cast<double>(random.below(4));
      const auto bytes = static_cast<double>(random.below(2000));
      double fastest = kUnlimited.value;
      for (const uint32_t link : flow.links) {
        brought[link] += bytes;
        fastest = std::min(fastest, links[link].capacity.value);
      }
      started.push_back(now);
      alone.push_back(bytes / fastest);
      flows.emplace(network.start(now, {bytes}, flow), flow);
      finish(now);
    }
    while (const auto next = network.next_completion()) finish(*next);
    SimTime last;  // told in order of time
    for (const Completion& done : ended) {
      EXPECT_GE(done.time, last);
      last = done.time;
      const double took = seconds(done.time - started[done.flow]).value;
      EXPECT_GE(took, alone[done.flow] * (1 - 1e-12));
    }
    EXPECT_EQ(ended.size(), 40u);
    for (uint32_t l = 0; l < links.size(); ++l) {
      EXPECT_EQ(network.delivered(l).value, brought[l]);
      EXPECT_LE(brought[l],
                links[l].capacity.value * seconds(last - started[0]).value * (1 + 1e-9));
    }
  }
}

// Oracle: the same flows in steps of one microsecond, shares solved over everything at each step.
TEST(Fluid, AgreesWithSmallSteps) {
  const std::vector<Link> links{{{2e6}}, {{3e6}}, {{1e6}}};
  struct Arrival {
    int64_t us;
    double bytes;
    Flow flow;
  };
  const std::vector<Arrival> arrivals{{0, 4000, {{0, 1}}},    {300, 1000, {{1}}},
                                      {500, 2500, {{1, 2}}},  {900, 700, {{2}, 3}},
                                      {1500, 3000, {{0}, 2}}, {1500, 900, {{0, 2}, 1, {2e5}}}};
  FluidNetwork network(links);
  for (const Arrival& a : arrivals) network.start({a.us * 1000}, {a.bytes}, a.flow);
  std::vector<double> exact(arrivals.size());
  for (const Completion& done : drain(network)) exact[done.flow] = done.time.ns * 1e-3;

  std::vector<double> left;
  for (const Arrival& a : arrivals) left.push_back(a.bytes);
  std::vector<double> stepped(arrivals.size());
  for (int64_t us = 0; us < 100'000; ++us) {
    std::vector<Flow> flows;
    std::vector<size_t> who;
    for (size_t i = 0; i < arrivals.size(); ++i) {
      if (arrivals[i].us > us || left[i] <= 0) continue;
      flows.push_back(arrivals[i].flow);
      who.push_back(i);
    }
    const std::vector<BytesPerSecond> rates = fair_shares(flows, links);
    for (size_t k = 0; k < who.size(); ++k) {
      left[who[k]] -= rates[k].value * 1e-6;
      if (left[who[k]] <= 0) stepped[who[k]] = static_cast<double>(us + 1);
    }
  }
  // Each completion may shift by up to a step, and later ones inherit the shifts of six flows.
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(exact[i], stepped[i], 6) << "flow " << i;
}

}  // namespace
}  // namespace tombolo::engine
