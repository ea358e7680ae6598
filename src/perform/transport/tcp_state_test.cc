#include "perform/transport/tcp_state.h"

#include <gtest/gtest.h>

namespace tombolo::transport {
namespace {

TEST(TcpState, IsOfConnectionsOnly) {
  EXPECT_FALSE(read_tcp_state(-1));
  EXPECT_EQ(congestion_control_of(-1), "");
  EXPECT_FALSE(set_congestion_control(-1, "cubic"));
}

TEST(TcpStateDeathTest, AMarkLeavesRoomForSomething) {
  EXPECT_DEATH(set_unsent_mark(-1, 0), "no mark for what is unsent");
}

}  // namespace
}  // namespace tombolo::transport
