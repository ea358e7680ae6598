#include "predict/engine/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace tombolo::engine {
namespace {

std::vector<double> rates_of(std::vector<Flow> flows, std::vector<Link> links) {
  std::vector<double> out;
  for (const BytesPerSecond rate : fair_shares(flows, links)) out.push_back(rate.value);
  return out;
}

TEST(FairShare, TwoFlowsHalveALink) {
  EXPECT_EQ(rates_of({{{0}}, {{0}}}, {{{100}}}), (std::vector<double>{50, 50}));
}

TEST(FairShare, WeightsDivideALinkInProportion) {
  // 100 to weights 1 and 3: level 25, rates 25 and 75.
  EXPECT_EQ(rates_of({{{0}, 1}, {{0}, 3}}, {{{100}}}), (std::vector<double>{25, 75}));
}

TEST(FairShare, WhatACappedFlowLeavesGoesToTheOthers) {
  // A may have 10 of 100; B and C share the other 90.
  EXPECT_EQ(rates_of({{{0}, 1, {10}}, {{0}}, {{0}}}, {{{100}}}), (std::vector<double>{10, 45, 45}));
}

TEST(FairShare, ALongFlowIsHeldByItsTightestLink) {
  // The example of Bertsekas & Gallager: A crosses both links, B the first, C the second.
  // Link 1 (60) fills at level 30: A = B = 30. Then C takes 100 - 30 = 70.
  EXPECT_EQ(rates_of({{{0, 1}}, {{0}}, {{1}}}, {{{60}}, {{100}}}),
            (std::vector<double>{30, 30, 70}));
}

TEST(FairShare, ManyConnectionsOnAWanPath) {
  // 16 connections with 3 MB of window at 80 ms round trip: cap 16 * 3e6 / 0.08 = 600e6 B/s. The
  // node pair may have 5 Gbps = 625e6 B/s, the path 400 Gbps: the windows decide.
  const Flow flow{{0, 1}, 16, 16 * (3_MB / 80_ms)};
  EXPECT_DOUBLE_EQ(rates_of({flow}, {{5_Gbps}, {400_Gbps}})[0], 600e6);
}

TEST(FairShare, NoFlowsNoRatesAndADeadLinkGivesNothing) {
  EXPECT_TRUE(rates_of({}, {{{1}}}).empty());
  EXPECT_EQ(rates_of({{{0, 1}}, {{1}}}, {{{0}}, {{8}}}), (std::vector<double>{0, 8}));
  EXPECT_EQ(rates_of({{{}, 1, {7}}}, {}), (std::vector<double>{7}));
}

TEST(FairShare, ALinkNamedTwiceIsLoadedTwice) {
  EXPECT_EQ(rates_of({{{0, 0}}}, {{{10}}}), (std::vector<double>{5}));
}

// A cell of two pipelines loads each of its two node pairs with half of its rate. On the first it
// meets one flow of a pipeline: both of its parts then get what the other pipeline gets, 5 each.
TEST(FairShare, AFlowInEqualPartsIsHeldByItsTightestPart) {
  const Flow cell{.links = {0, 1}, .weight = 2, .shares = {0.5, 0.5}};
  EXPECT_EQ(rates_of({cell, {{0}}}, {{{10}}, {{10}}}), (std::vector<double>{10, 5}));
  EXPECT_EQ(rates_of({cell}, {{{10}}, {{10}}}), (std::vector<double>{20}));
}

struct Case {
  std::vector<Flow> flows;
  std::vector<Link> links;
};

// Up to 6 links and 12 flows; ties, dead links, equal caps and heavy weights all occur.
Case random_case(Random& random) {
  Case out;
  const size_t links = 1 + random.below(6);
  for (size_t i = 0; i < links; ++i) {
    out.links.push_back({{random.below(20) == 0 ? 0.0 : 1.0 + double(random.below(100))}});
  }
  const size_t flows = 1 + random.below(12);
  for (size_t i = 0; i < flows; ++i) {
    Flow flow;
    for (uint32_t link = 0; link < links; ++link) {
      if (random.below(3) == 0) flow.links.push_back(link);
    }
    flow.weight = random.below(2) == 0 ? 1 : 0.1 + 4 * random.uniform();
    if (random.below(3) == 0) {
      for (size_t l = 0; l < flow.links.size(); ++l) flow.shares.push_back(0.5 + random.uniform());
    }
    if (flow.links.empty() || random.below(3) == 0) flow.cap = {double(random.below(60))};
    out.flows.push_back(std::move(flow));
  }
  return out;
}

// Oracle: pour in tiny steps. Whoever cannot take the next step without overflowing something
// stops.
std::vector<double> pour(const Case& c, double step) {
  std::vector<double> rates(c.flows.size());
  std::vector<bool> stopped(c.flows.size());
  std::vector<double> load(c.links.size());
  while (std::count(stopped.begin(), stopped.end(), false) > 0) {
    for (size_t i = 0; i < c.flows.size(); ++i) {
      if (stopped[i]) continue;
      const double more = step * c.flows[i].weight;
      bool fits = rates[i] + more <= c.flows[i].cap.value;
      for (size_t l = 0; l < c.flows[i].links.size(); ++l) {
        const uint32_t link = c.flows[i].links[l];
        fits = fits && load[link] + more * c.flows[i].share_on(l) <= c.links[link].capacity.value;
      }
      if (!fits) {
        stopped[i] = true;
        continue;
      }
      rates[i] += more;
      for (size_t l = 0; l < c.flows[i].links.size(); ++l) {
        load[c.flows[i].links[l]] += more * c.flows[i].share_on(l);
      }
    }
  }
  return rates;
}

TEST(FairShare, AgreesWithPouringInTinySteps) {
  constexpr double kStep = 0.01;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed + 5000);
    const Case c = random_case(random);
    const std::vector<BytesPerSecond> rates = fair_shares(c.flows, c.links);
    const std::vector<double> poured = pour(c, kStep);
    // Pouring errs by a step of each flow that stops, and 12 flows of weight <= 4.1 may have
    // stopped too early one after the other, on links that carry half of a rate or more:
    // 12 * 4.1 * 0.01 / 0.5 < 1 of rates up to 200.
    for (size_t i = 0; i < rates.size(); ++i) EXPECT_NEAR(rates[i].value, poured[i], 1);
  }
}

TEST(FairShare, RelabellingFlowsRelabelsTheRates) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed + 9000);
    Case c = random_case(random);
    const std::vector<BytesPerSecond> rates = fair_shares(c.flows, c.links);
    std::reverse(c.flows.begin(), c.flows.end());
    std::vector<BytesPerSecond> again = fair_shares(c.flows, c.links);
    std::reverse(again.begin(), again.end());
    for (size_t i = 0; i < rates.size(); ++i) {
      EXPECT_NEAR(rates[i].value, again[i].value, 1e-9 * (1 + rates[i].value));
    }
  }
}

}  // namespace
}  // namespace tombolo::engine
