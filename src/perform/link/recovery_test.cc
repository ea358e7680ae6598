#include "perform/link/recovery.h"

#include <gtest/gtest.h>

namespace tombolo::link {
namespace {

constexpr SimDuration kSecond{1'000'000'000};

SimTime at(double seconds) { return {static_cast<int64_t>(seconds * 1e9)}; }

TEST(Recovery, CallsAtOnceAndThenLessAndLessOften) {
  Recovery recovery(kSecond * 60, 2, 1);
  recovery.lost(1, "reset", at(1));
  EXPECT_EQ(recovery.call_at(1), at(1));
  SimTime now = at(1);
  double pause = 0.05;  // seconds
  for (int call = 0; call < 12; ++call) {
    recovery.failed_call(1, "refused", now);
    const double waited = seconds(recovery.call_at(1) - now).value;
    EXPECT_GE(waited, pause * 0.75);
    EXPECT_LE(waited, pause * 1.25);
    pause = std::min(2.0, 2 * pause);
    now = recovery.call_at(1);
  }
  EXPECT_FALSE(recovery.over_at()) << "the other one lives";
}

TEST(Recovery, IsOverAfterTheGraceWithoutAnyConnection) {
  Recovery recovery(kSecond * 10, 2, 1);
  recovery.lost(0, "nothing came for 10 s", at(1));
  recovery.lost(0, "again", at(2));  // known already
  recovery.lost(1, "Connection reset by peer", at(3));
  EXPECT_EQ(recovery.over_at(), at(13));
  recovery.failed_call(0, "Connection refused", at(4));
  EXPECT_EQ(recovery.reason(at(13)),
            "it had no connection for 10 s: Connection reset by peer; the last call for it failed: "
            "Connection refused");
  EXPECT_EQ(recovery.back(0, at(12)), "lost for 11 s: nothing came for 10 s");
  EXPECT_EQ(recovery.back(0, at(12)), "") << "it is here";
  EXPECT_FALSE(recovery.over_at());
  recovery.lost(0, "reset", at(20));
  EXPECT_EQ(recovery.over_at(), at(30)) << "it begins anew";
  EXPECT_EQ(recovery.losses(), 3u);
}

// A path that takes every connection and cuts it at once is not called twenty times a second.
TEST(Recovery, AConnectionThatDoesNotLastIsCalledLater) {
  Recovery recovery(kSecond * 60, 1, 1);
  SimTime now = at(1);
  for (int i = 0; i < 10; ++i) {
    recovery.lost(0, "reset", now);
    now = recovery.call_at(0);
    recovery.back(0, now);
  }
  EXPECT_GT(now, at(5));
  recovery.lost(0, "reset", now + kSecond * 3);
  EXPECT_EQ(recovery.call_at(0), now + kSecond * 3) << "this one lasted";
}

}  // namespace
}  // namespace tombolo::link
