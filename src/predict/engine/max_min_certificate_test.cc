#include "support/max_min_certificate.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tombolo::engine {
namespace {

using Rates = std::vector<BytesPerSecond>;

// The example of Bertsekas & Gallager: A crosses both links (60 and 100), B the first, C the
// second. Max-min fair is 30, 30, 70.
const std::vector<Flow> kFlows{{{0, 1}}, {{0}}, {{1}}};
const std::vector<Link> kLinks{{{60}}, {{100}}};

std::string refusal(const std::vector<Flow>& flows, const std::vector<Link>& links,
                    const Rates& rates) {
  const Status status = check_max_min(flows, links, rates);
  return status ? "" : status.error().message;
}

TEST(MaxMinCertificate, PassesTheOneAllocationThereIs) {
  EXPECT_EQ(refusal(kFlows, kLinks, {{30}, {30}, {70}}), "");
}

TEST(MaxMinCertificate, RefusesWhatLeavesALinkUnused) {
  // C could have 70; the second link is not full with 30 + 69.
  EXPECT_EQ(refusal(kFlows, kLinks, {{30}, {30}, {69}}),
            "flow 2 has 69 B/s, is not at its cap and has no bottleneck");
}

TEST(MaxMinCertificate, RefusesMoreThanALinkHas) {
  EXPECT_EQ(refusal(kFlows, kLinks, {{30}, {30}, {71}}), "link 1 carries 101 B/s and has 100 B/s");
  // Twice named, twice loaded: 6 B/s are 12 on a link of 10.
  EXPECT_EQ(refusal({{{0, 0}}}, {{{10}}}, {{6}}), "link 0 carries 12 B/s and has 10 B/s");
  EXPECT_EQ(refusal({{{0, 0}}}, {{{10}}}, {{5}}), "");
}

TEST(MaxMinCertificate, RefusesWhatIsFullButUnfair) {
  // All bytes flow, 60 and 100 of them, but A has less than both B and C who take them.
  EXPECT_EQ(refusal(kFlows, kLinks, {{20}, {40}, {80}}),
            "flow 0 has 20 B/s, is not at its cap and has no bottleneck");
  // The largest sum of rates is not fair either: A gets nothing.
  EXPECT_EQ(refusal(kFlows, kLinks, {{0}, {60}, {100}}),
            "flow 0 has 0 B/s, is not at its cap and has no bottleneck");
}

TEST(MaxMinCertificate, MeasuresFairnessByWeight) {
  const std::vector<Flow> flows{{{0}, 1}, {{0}, 3}};
  EXPECT_EQ(refusal(flows, {{{100}}}, {{25}, {75}}), "");
  EXPECT_EQ(refusal(flows, {{{100}}}, {{50}, {50}}),
            "flow 1 has 50 B/s, is not at its cap and has no bottleneck");
}

TEST(MaxMinCertificate, HoldsFlowsToTheirCaps) {
  const std::vector<Flow> flows{{{0}, 1, {10}}, {{0}}};
  EXPECT_EQ(refusal(flows, {{{100}}}, {{10}, {90}}), "");
  EXPECT_EQ(refusal(flows, {{{100}}}, {{20}, {80}}), "flow 0 has 20 B/s, above its cap of 10 B/s");
  EXPECT_EQ(refusal(flows, {{{100}}}, {{5}, {95}}),
            "flow 0 has 5 B/s, is not at its cap and has no bottleneck");
  EXPECT_EQ(refusal(flows, {{{100}}}, {{-1}, {100}}), "flow 0 has -1 B/s, below 0");
}

// Up to 6 links and 12 flows; ties, dead links, equal caps, heavy weights and links named twice all
// occur.
TEST(MaxMinCertificate, IsCarriedByFairSharesOfAThousandRandomSets) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Random random(seed);
    std::vector<Link> links(1 + random.below(6));
    for (Link& link : links) {
      link.capacity = {random.below(10) == 0 ? 0.0 : 1.0 + double(random.below(100))};
    }
    std::vector<Flow> flows(1 + random.below(12));
    for (Flow& flow : flows) {
      for (uint32_t link = 0; link < links.size(); ++link) {
        if (random.below(3) == 0) flow.links.push_back(link);
        if (random.below(12) == 0) flow.links.push_back(link);
      }
      flow.weight = random.below(2) == 0 ? 1 : 0.1 + 4 * random.uniform();
      if (flow.links.empty() || random.below(3) == 0) flow.cap = {double(random.below(60))};
    }
    const Rates rates = fair_shares(flows, links);
    ASSERT_EQ(refusal(flows, links, rates), "") << "seed " << seed;
    // And any single rate that is another one is refused.
    const size_t changed = random.below(flows.size());
    Rates wrong = rates;
    wrong[changed].value = wrong[changed].value * 1.01 + 0.01;
    ASSERT_NE(refusal(flows, links, wrong), "") << "seed " << seed;
    if (rates[changed].value == 0) continue;
    wrong[changed].value = rates[changed].value * 0.99;
    ASSERT_NE(refusal(flows, links, wrong), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace tombolo::engine
