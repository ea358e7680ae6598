#include "perform/link/recovery.h"

#include <gtest/gtest.h>

namespace tombolo::link {
namespace {

constexpr SimDuration kSecond{1'000'000'000};

SimTime at(double seconds) { return {static_cast<int64_t>(seconds * 1e9)}; }

TEST(Recovery, CallsAtOnceAndThenLessAndLessOften) {
  Recovery recovery({kSecond * 60, kSecond * 60}, 2, 1);
  recovery.lost(1, Loss::kEnded, "reset", at(1));
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
  Recovery recovery({kSecond * 10, kSecond * 10}, 2, 1);
  recovery.lost(0, Loss::kSilent, "nothing came for 10 s", at(1));
  recovery.lost(0, Loss::kEnded, "again", at(2));  // known already
  recovery.lost(1, Loss::kEnded, "Connection reset by peer", at(3));
  EXPECT_EQ(recovery.over_at(), at(13));
  recovery.failed_call(0, "Connection refused", at(4));
  EXPECT_EQ(recovery.reason(at(13)),
            "it had no connection for 10 s: Connection reset by peer; the last call for it failed: "
            "Connection refused");
  EXPECT_EQ(recovery.back(0, at(12)), "lost for 11 s: nothing came for 10 s");
  EXPECT_EQ(recovery.back(0, at(12)), "") << "it is here";
  EXPECT_FALSE(recovery.over_at());
  recovery.lost(0, Loss::kEnded, "reset", at(20));
  EXPECT_EQ(recovery.over_at(), at(30)) << "it begins anew";
  EXPECT_EQ(recovery.losses(), 3u);
}

// A path that takes every connection and cuts it at once is not called twenty times a second.
TEST(Recovery, AConnectionThatDoesNotLastIsCalledLater) {
  Recovery recovery({kSecond * 60, kSecond * 60}, 1, 1);
  SimTime now = at(1);
  for (int i = 0; i < 10; ++i) {
    recovery.lost(0, Loss::kEnded, "reset", now);
    now = recovery.call_at(0);
    recovery.back(0, now);
  }
  EXPECT_GT(now, at(5));
  recovery.lost(0, Loss::kEnded, "reset", now + kSecond * 3);
  EXPECT_EQ(recovery.call_at(0), now + kSecond * 3) << "this one lasted";
}

TEST(Recovery, AnEndIsBelievedSoonerThanSilence) {
  Recovery recovery({.silent = kSecond * 60, .ended = kSecond * 2}, 1, 1);
  recovery.lost(0, Loss::kEnded, "reset", at(1));
  EXPECT_EQ(recovery.over_at(), at(3)) << "it would have called";
  recovery.back(0, at(2));
  recovery.lost(0, Loss::kSilent, "nothing came for 10 s", at(20));
  EXPECT_EQ(recovery.over_at(), at(80)) << "its path may be cut";
}

// A process that slept answers calls whose callers wait for no answer any more: each of these
// connections ends at once, and says nothing about the process that called.
TEST(Recovery, AnAnswerThatCameTooLateIsStillSilence) {
  Recovery recovery({.silent = kSecond * 60, .ended = kSecond * 2}, 1, 1);
  recovery.lost(0, Loss::kSilent, "nothing came for 10 s", at(10));
  recovery.back(0, at(30));
  recovery.lost(0, Loss::kEnded, "it ended", at(30.1));
  EXPECT_EQ(recovery.over_at(), at(90.1));
  recovery.back(0, at(31));
  recovery.lost(0, Loss::kEnded, "it ended", at(40));
  EXPECT_EQ(recovery.over_at(), at(42)) << "this one lasted";
}

// What a call waited for an answer is no reason to wait longer for the next one.
TEST(Recovery, ACallThatNobodyAnsweredIsRepeatedAtOnce) {
  Recovery recovery({kSecond * 60, kSecond * 60}, 1, 1);
  recovery.lost(0, Loss::kSilent, "nothing came for 10 s", at(10));
  recovery.failed_call(0, "no answer within 5 s", at(15));
  EXPECT_EQ(recovery.call_at(0), at(15));
  recovery.failed_call(0, "no answer within 5 s", at(20));
  EXPECT_EQ(recovery.call_at(0), at(20));
}

}  // namespace
}  // namespace tombolo::link
