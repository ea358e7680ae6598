#include "perform/launch/stop_signals.h"

#include <gtest/gtest.h>

namespace tombolo::launch {
namespace {

TEST(StopSignals, AreAFlagAsLongAsSomebodyWaitsForThem) {
  StopSignals signals(SecondSignal::kIgnored);
  EXPECT_FALSE(signals.flag());
  raise(SIGTERM);
  raise(SIGINT);
  EXPECT_TRUE(signals.flag());
}

TEST(StopSignalsDeathTest, OneAtATime) {
  { StopSignals before; }
  StopSignals signals;
  EXPECT_DEATH(StopSignals(), "somebody else waits for the signals already");
}

}  // namespace
}  // namespace tombolo::launch
