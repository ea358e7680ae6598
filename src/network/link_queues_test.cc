#include "network/link_queues.h"

#include <gtest/gtest.h>

namespace tombolo::network {
namespace {

using Place = LinkQueues::Place;

TEST(LinkQueues, RoutesTheLowerDimensionFirst) {
  const Topology net =
      *Topology::create({{Block::kRing, 4, 50, 500}, {Block::kSwitch, 2, 50, 500}});
  const LinkQueues links(net);
  // From 0 to 7 = (3, 1): one step down the ring, then over the switch.
  LinkQueues::Hop hop = links.next_hop({0, false}, 7);
  EXPECT_EQ(hop.dimension, 0u);
  EXPECT_EQ(hop.end, (Place{3, false}));
  hop = links.next_hop(hop.end, 7);
  EXPECT_EQ(hop.dimension, 1u);
  EXPECT_EQ(hop.end, (Place{3, true}));
  const int64_t up = hop.link;
  hop = links.next_hop(hop.end, 7);
  EXPECT_EQ(hop.end, (Place{7, false}));
  EXPECT_NE(hop.link, up);
}

TEST(LinkQueues, GoesUpWhereBothWaysRoundARingAreAsShort) {
  const Topology net = *Topology::create({{Block::kRing, 4, 50, 500}});
  const LinkQueues links(net);
  EXPECT_EQ(links.next_hop({1, false}, 3).end, (Place{2, false}));
  EXPECT_EQ(links.next_hop({3, false}, 2).end, (Place{2, false}));
}

TEST(LinkQueues, ServesFirstComeFirstServed) {
  const Topology net = *Topology::create({{Block::kFullyConnected, 3, 50, 500}});
  LinkQueues links(net);
  const int64_t link = links.next_hop({0, false}, 2).link;
  EXPECT_TRUE(links.offer(link, 10));
  EXPECT_FALSE(links.offer(link, 4));
  EXPECT_FALSE(links.offer(link, 7));
  EXPECT_TRUE(links.offer(links.next_hop({0, false}, 1).link, 5));  // another link
  EXPECT_EQ(links.release(link), 4);
  EXPECT_FALSE(links.offer(link, 4));
  EXPECT_EQ(links.release(link), 7);
  EXPECT_EQ(links.release(link), 4);
  EXPECT_EQ(links.release(link), -1);
  EXPECT_TRUE(links.offer(link, 1));
}

}  // namespace
}  // namespace tombolo::network
