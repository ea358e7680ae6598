#include "spec/cluster/tight_windows.h"

#include <gtest/gtest.h>

namespace tombolo::cluster {
namespace {

WanLink atlas(Seconds latency, int64_t connections) {
  WanLink link;
  link.one_way_latency = latency;
  link.node_pair_limit = 5_Gbps;
  link.tcp_window = 3_MB;
  link.connections = connections;
  return link;
}

// 5 Gbps carry 50 MB in 80 ms and 12.5 MB in 20 ms.
TEST(TightWindows, HoldAboutARoundTrip) {
  EXPECT_NEAR(window_share(atlas(40_ms, 16)), 0.96, 1e-12);
  EXPECT_NEAR(window_share(atlas(10_ms, 5)), 1.2, 1e-12);
  EXPECT_TRUE(has_tight_windows(atlas(40_ms, 16)));
  EXPECT_TRUE(has_tight_windows(atlas(10_ms, 5)));
  EXPECT_FALSE(has_tight_windows(atlas(40_ms, 1)));   // 0.06
  EXPECT_FALSE(has_tight_windows(atlas(10_ms, 16)));  // 3.84
}

TEST(TightWindows, AreThoseOfThePathWhereItIsTheNarrowest) {
  WanLink link = atlas(10_ms, 5);
  link.path_limit = 2.5_Gbps;
  EXPECT_NEAR(window_share(link), 2.4, 1e-12);
  link.tcp_window.reset();
  EXPECT_EQ(window_share(link), 0);
  EXPECT_FALSE(has_tight_windows(link));
}

}  // namespace
}  // namespace tombolo::cluster
