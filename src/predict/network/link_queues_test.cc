#include "predict/network/link_queues.h"

#include <gtest/gtest.h>

namespace tombolo::network {
namespace {

TEST(LinkQueues, ServesFirstComeFirstServed) {
  LinkQueues links(2);
  EXPECT_TRUE(links.offer(1, 10));
  EXPECT_FALSE(links.offer(1, 4));
  EXPECT_FALSE(links.offer(1, 7));
  EXPECT_TRUE(links.offer(0, 5));  // another link
  EXPECT_EQ(links.release(1), 4);
  EXPECT_FALSE(links.offer(1, 4));
  EXPECT_EQ(links.release(1), 7);
  EXPECT_EQ(links.release(1), 4);
  EXPECT_EQ(links.release(1), -1);
  EXPECT_TRUE(links.offer(1, 1));
}

}  // namespace
}  // namespace tombolo::network
