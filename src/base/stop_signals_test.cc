#include "base/stop_signals.h"

#include <gtest/gtest.h>

namespace tombolo {
namespace {

TEST(StopSignals, AreAFlagAsLongAsSomebodyWaitsForThem) {
  StopSignals signals(SecondSignal::kIgnored);
  EXPECT_FALSE(signals.flag());
  raise(SIGTERM);
  raise(SIGINT);
  EXPECT_TRUE(signals.flag());
}

// A closed terminal sends it, the shell as well, and who passes signals on.
TEST(StopSignals, OfAClosedTerminalNoneEndsTheProgram) {
  StopSignals signals;
  raise(SIGHUP);
  EXPECT_TRUE(signals.flag());
  raise(SIGHUP);
}

TEST(StopSignals, LeaveAHangupIgnoredThatNohupIgnores) {
  signal(SIGHUP, SIG_IGN);
  {
    StopSignals signals;
    raise(SIGHUP);
    EXPECT_FALSE(signals.flag());
  }
  EXPECT_TRUE(outlives_terminal());
  signal(SIGHUP, SIG_DFL);
  { StopSignals signals; }
  EXPECT_FALSE(outlives_terminal());
}

TEST(StopSignalsDeathTest, OneAtATime) {
  { StopSignals before; }
  StopSignals signals;
  EXPECT_DEATH(StopSignals(), "another object waits for the signals already");
}

}  // namespace
}  // namespace tombolo
