#include "predict/network/route.h"

#include <gtest/gtest.h>

namespace tombolo::network {
namespace {

using Place = Routes::Place;

TEST(Routes, TakesTheLowerDimensionFirst) {
  const Topology net =
      *Topology::create({{Block::kRing, 4, 50, 500}, {Block::kSwitch, 2, 50, 500}});
  const Routes routes(net);
  // From 0 to 7 = (3, 1): one step down the ring, then over the switch.
  Routes::Hop hop = routes.next_hop({0, false}, 7);
  EXPECT_EQ(hop.dimension, 0u);
  EXPECT_EQ(hop.end, (Place{3, false}));
  hop = routes.next_hop(hop.end, 7);
  EXPECT_EQ(hop.dimension, 1u);
  EXPECT_EQ(hop.end, (Place{3, true}));
  const int64_t up = hop.link;
  hop = routes.next_hop(hop.end, 7);
  EXPECT_EQ(hop.end, (Place{7, false}));
  EXPECT_NE(hop.link, up);
}

TEST(Routes, GoUpWhereBothWaysRoundARingAreAsShort) {
  const Topology net = *Topology::create({{Block::kRing, 4, 50, 500}});
  const Routes routes(net);
  EXPECT_EQ(routes.next_hop({1, false}, 3).end, (Place{2, false}));
  EXPECT_EQ(routes.next_hop({3, false}, 2).end, (Place{2, false}));
}

TEST(Routes, BetweenDatacentersAllTakeOnePath) {
  const Topology net = *Topology::create({{Block::kRing, 4, 50, 500}, {Block::kWan, 3, 1, 1e7}});
  const Routes routes(net);
  const int64_t path = routes.next_hop({0, false}, 8).link;  // datacenter 0 to 2
  EXPECT_EQ(routes.next_hop({3, false}, 11).link, path);
  EXPECT_EQ(routes.next_hop({3, false}, 11).end, (Place{11, false}));
  EXPECT_NE(routes.next_hop({8, false}, 0).link, path);  // back
  EXPECT_NE(routes.next_hop({0, false}, 4).link, path);  // to datacenter 1
  // The lower dimension first, at home.
  EXPECT_EQ(routes.next_hop({0, false}, 9).end, (Place{1, false}));
}

}  // namespace
}  // namespace tombolo::network
