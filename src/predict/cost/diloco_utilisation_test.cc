#include "predict/cost/diloco_utilisation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tombolo::cost {
namespace {

// 10 billion parameters, 12 bits of each: 120 Gbit. Steps of 0.8 s hide 0.5333 s.
const DilocoSteps kTenBillion{.parameters = 10e9, .step = 800_ms};

DilocoSteps every(int64_t steps) {
  DilocoSteps of = kTenBillion;
  of.every = steps;
  return of;
}

TEST(DilocoUtilisation, ByHand) {
  // 120 Gbit at 90 Gbps: 1.3333 s, of which 0.8 are waited for, as long as the step.
  EXPECT_NEAR(diloco_utilisation(kTenBillion, 90_Gbps), 0.5, 1e-12);
  // At 30 Gbps 4 s, 3.4667 of them waited for after ten steps of 0.8 s: 8 / 11.4667.
  EXPECT_NEAR(diloco_utilisation(every(10), 30_Gbps), 8 / (8 + 4 - 1.6 / 3), 1e-12);
  // At 225 Gbps 0.5333 s: hidden.
  EXPECT_NEAR(diloco_utilisation(kTenBillion, 225_Gbps), 1, 1e-12);
  EXPECT_EQ(diloco_utilisation(kTenBillion, 300_Gbps), 1);
}

TEST(DilocoUtilisation, RatesByHand) {
  // Waiting 0.8 (1/0.5 - 1) = 0.8 s: 120 / (0.8 + 0.5333). Of 80 %: 0.2 s. Of ten steps, 50 %: 8 s.
  EXPECT_NEAR(diloco_rate(kTenBillion, 0.5) / 1_Gbps, 90, 1e-9);
  EXPECT_NEAR(diloco_rate(kTenBillion, 0.8) / 1_Gbps, 120 / (0.2 + 1.6 / 3), 1e-9);
  EXPECT_NEAR(diloco_rate(every(10), 0.5) / 1_Gbps, 120 / (8 + 1.6 / 3), 1e-9);
  // 405 billion, steps of 26 s, every 300: 4,860 Gbit in 7,800 / 19 + 17.3333 s.
  const DilocoSteps llama{.parameters = 405e9, .step = 26_s, .every = 300};
  EXPECT_NEAR(diloco_rate(llama, 0.95) / 1_Gbps, 4860 / (7800.0 / 19 + 52.0 / 3), 1e-9);
}

TEST(DilocoUtilisation, ARateHasItsUtilisationAndOneBelowLess) {
  for (const int64_t steps : {1, 10, 50, 100, 300}) {
    for (const double utilisation : {0.5, 0.8, 0.9, 0.95, 0.99}) {
      const BytesPerSecond rate = diloco_rate(every(steps), utilisation);
      EXPECT_NEAR(diloco_utilisation(every(steps), rate), utilisation, 1e-12);
      EXPECT_LT(diloco_utilisation(every(steps), rate * 0.999), utilisation);
    }
  }
}

// Step by step: compute H steps, then send what the last backward pass has not covered, in pieces
// of 0.1 ms.
TEST(DilocoUtilisation, EqualsSendingInSmallPieces) {
  for (const int64_t steps : {1, 10}) {
    for (const BytesPerSecond rate : {20_Gbps, 90_Gbps, 180_Gbps, 240_Gbps}) {
      const double piece = 1e-4, gbit = rate.value * 8e-9 * piece;
      int64_t pieces = 0;
      for (double left = 120; left > 1e-9; left -= gbit) ++pieces;
      const double computed = 0.8 * static_cast<double>(steps);
      const double end =
          std::max(computed, computed - 1.6 / 3 + static_cast<double>(pieces) * piece);
      EXPECT_NEAR(diloco_utilisation(every(steps), rate), computed / end, 2e-4);
    }
  }
}

TEST(DilocoUtilisationDeathTest, OfSomethingThatTrains) {
  EXPECT_DEATH(diloco_utilisation({}, 1_Gbps), "0 parameters");
  EXPECT_DEATH(diloco_utilisation(kTenBillion, BytesPerSecond{}), "a rate of 0 B/s");
  EXPECT_DEATH(diloco_rate(kTenBillion, 1), "a utilisation of 1");
}

}  // namespace
}  // namespace tombolo::cost
