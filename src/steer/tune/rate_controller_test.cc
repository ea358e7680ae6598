#include "steer/tune/rate_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace tombolo::tune {
namespace {

using ::testing::HasSubstr;

// A training in virtual time, with 350 MB of gradients (87.5 million floats), of which a selected number takes
// 2.08 bytes, and passes of 170 ms: an exchange runs while the next iteration computes.
constexpr double kWhole = 87.5e6 * 2.08;
constexpr double kComputing = 0.170;

struct Line {
  std::function<double(double s)> mbps;
  // When `bytes` bytes that leave at `from` have arrived.
  double arrives(double from, double bytes) const {
    constexpr double kTick = 1e-3;
    double at = from;
    while (bytes > 1e-3) {
      const double rate = mbps(at) * 1e6 / 8;
      const double part = std::min(kTick, bytes / rate);
      bytes -= part * rate;
      at += part;
    }
    return at;
  }
};

struct Training {
  std::vector<double> periods;
  std::vector<DensityDecision> decisions;
  std::vector<double> densities;  // by iteration

  double mean(size_t from = 0) const {
    double sum = 0;
    for (size_t i = from; i < periods.size(); ++i) sum += periods[i];
    return sum / static_cast<double>(periods.size() - from);
  }
  // The plain coefficient of variation.
  double variation(size_t from = 0) const {
    const double of = mean(from);
    double squares = 0;
    for (size_t i = from; i < periods.size(); ++i) squares += (periods[i] - of) * (periods[i] - of);
    return std::sqrt(squares / static_cast<double>(periods.size() - from)) / of;
  }
};

Training train(const Line& line, int64_t iterations, RateController* controller,
               double density = 0.01) {
  Training out;
  double now = 0, coming = 0, sent = 0, in_flight = 0;
  std::optional<DensityDecision> next;
  for (int64_t i = 1; i <= iterations; ++i) {
    if (next && next->first_iteration <= i) density = std::exchange(next, {})->density;
    const double begin = now;
    now = std::max(begin + kComputing, coming);  // the update of the iteration before
    out.periods.push_back(now - begin);
    out.densities.push_back(density);
    if (controller) {
      const auto decision = controller->add({.iteration = i,
                                             .computing = Seconds{kComputing},
                                             .waited = Seconds{now - begin - kComputing},
                                             .came = Bytes{sent},
                                             .in_flight = Seconds{in_flight}});
      if (decision) {
        EXPECT_GT(decision->first_iteration, i);
        next = decision;
        out.decisions.push_back(*decision);
      }
    }
    sent = kWhole * density;
    coming = line.arrives(now, sent);
    in_flight = coming - now;
  }
  return out;
}

// At 193 Mbps 0.9 * 24.1 MB/s * 0.17 s = 3.69 MB, 2.03 % of 182 MB: 0.02.
TEST(RateController, SendsWhatAConstantLineCarriesWhileAnIterationComputes) {
  RateController controller({});
  const Training run = train({[](double) { return 193.0; }}, 60, &controller);
  EXPECT_DOUBLE_EQ(run.densities.back(), 0.02);
  EXPECT_EQ(run.decisions.size(), 2U);  // 0.01, 0.015, 0.02: half more at most at a time
  EXPECT_NEAR(run.periods.back(), kComputing, 1e-9);
  EXPECT_THAT(run.decisions.back().reason, HasSubstr("the line carries 193 Mbps"));
  EXPECT_THAT(run.decisions.back().reason, HasSubstr("170 ms"));
}

// A line that trembles by 10 % around its mean.
TEST(RateController, LeavesTheDensityAloneWhereTheLineTrembles) {
  RateController controller({});
  const Line line{[](double s) { return 193 * (1 + 0.1 * std::sin(s * 40)); }};
  const Training run = train(line, 600, &controller);
  EXPECT_LE(run.decisions.size(), 4U);
  for (const DensityDecision& each : run.decisions) EXPECT_LT(each.first_iteration, 60);
}

// An exchange of 0.02 takes 151 ms, at half the rate 302: both reports after the fall are far too long, and a
// decision holds three iterations later.
TEST(RateController, FollowsALineDownWithinAFewIterations) {
  RateController controller({});
  const double falls = 60 * kComputing;
  const Line line{[&](double s) { return s < falls ? 193.0 : 96.5; }};
  const Training run = train(line, 120, &controller);
  EXPECT_DOUBLE_EQ(run.densities[59], 0.02);
  size_t slow = 0;
  for (size_t i = 60; i < run.periods.size(); ++i) slow += run.periods[i] > 1.05 * kComputing;
  EXPECT_LE(slow, 6U);
  EXPECT_DOUBLE_EQ(run.densities.back(), 0.01);
  EXPECT_NEAR(run.periods.back(), kComputing, 1e-9);
}

TEST(RateController, FollowsALineUpSlowly) {
  RateController controller({});
  const double rises = 60 * kComputing;
  const Line line{[&](double s) { return s < rises ? 96.5 : 386.0; }};
  const Training run = train(line, 160, &controller);
  EXPECT_DOUBLE_EQ(run.densities[59], 0.01);
  EXPECT_DOUBLE_EQ(run.densities.back(), 0.04);
  for (const double period : run.periods) EXPECT_LT(period, 1.05 * kComputing);
}

// From 50 to 600 Mbps in steps of 20 s, a fluctuation as StellaTrain's figure 1 shows of CloudLab.
double fluctuating(double s) {
  constexpr double kSteps[] = {193, 310, 120, 50, 90, 240, 600, 410, 150, 60, 200, 330};
  return kSteps[static_cast<size_t>(s / 20) % std::size(kSteps)];
}

TEST(RateController, KeepsThePeriodEvenOnALineThatFluctuates) {
  const Line line{fluctuating};
  RateController controller({});
  const Training run = train(line, 1400, &controller);
  const Training fixed = train(line, 1400, nullptr, 0.02);
  RecordProperty("variation", fmt::format("{:.4f}", run.variation()));
  RecordProperty("variation_of_density_0_02", fmt::format("{:.4f}", fixed.variation()));
  RecordProperty("mean", fmt::format("{:.4f}", run.mean()));
  RecordProperty("mean_of_density_0_02", fmt::format("{:.4f}", fixed.mean()));
  RecordProperty("decisions", static_cast<int>(run.decisions.size()));
  EXPECT_LT(run.variation(), 0.25);
  EXPECT_GT(fixed.variation(), 2 * run.variation());
  EXPECT_LT(run.mean(), 1.03 * kComputing);
  EXPECT_GT(fixed.mean(), 1.15 * kComputing);
  // A step of 20 s is 118 iterations: each may take some decisions.
  EXPECT_LE(run.decisions.size(), 60U);
}

TEST(RateController, StaysInItsRange) {
  RateController controller({.density = 0.01, .lowest = 0.005, .highest = 0.012});
  const Training slow = train({[](double) { return 5.0; }}, 40, &controller);
  EXPECT_DOUBLE_EQ(slow.densities.back(), 0.005);
  EXPECT_EQ(slow.decisions.size(), 1U);
  RateController other({.density = 0.01, .lowest = 0.005, .highest = 0.012});
  const Training fast = train({[](double) { return 5000.0; }}, 40, &other);
  EXPECT_LE(fast.densities.back(), 0.012);
}

// Nothing in flight is long enough to be measured: half more at a time, up to what is allowed.
TEST(RateController, RisesStepByStepWhereMessagesAreTooShortToTell) {
  RateController controller({.density = 0.01, .lowest = 0.002, .highest = 0.02});
  std::vector<double> densities;
  for (int64_t i = 1; i <= 40; ++i) {
    const auto decision = controller.add({.iteration = i,
                                          .computing = Seconds{kComputing},
                                          .waited = {},
                                          .came = Bytes{100},
                                          .in_flight = Seconds{0.001}});
    if (!decision) continue;
    densities.push_back(decision->density);
    EXPECT_THAT(decision->reason, HasSubstr("too quickly to measure"));
  }
  ASSERT_GE(densities.size(), 2U);
  EXPECT_DOUBLE_EQ(densities[0], 0.015);
  EXPECT_DOUBLE_EQ(densities[1], 0.02);
}

// 30 KB over 1 Mbps take 240 ms, of which the receiver sees the last pieces alone: 20 ms.
TEST(RateController, BelievesAWaitMoreThanMessagesThatSeemToComeFast) {
  RateController controller({.density = 0.012});
  std::optional<DensityDecision> decision;
  for (int64_t i = 1; i <= 4 && !decision; ++i) {
    decision = controller.add({.iteration = i,
                               .computing = Seconds{0.120},
                               .waited = Seconds{0.120},
                               .came = Bytes{30e3},
                               .in_flight = Seconds{0.020}});
  }
  ASSERT_TRUE(decision);
  EXPECT_DOUBLE_EQ(decision->density, 0.0054);  // 0.9 * 120 / 240 of it
  EXPECT_DOUBLE_EQ(decision->rate.value, 125e3);
  // Nor does it rise at once because what comes then seems fast again.
  for (int64_t i = decision->first_iteration; i < 40; ++i) {
    EXPECT_FALSE(controller.add({.iteration = i,
                                 .computing = Seconds{0.120},
                                 .waited = {},
                                 .came = Bytes{13.5e3},
                                 .in_flight = Seconds{0.010}}));
  }
}

// An update of two halves, the first of which comes in the iteration that it is of, and the second in the next: so
// the first report has half an update, and each of the others a whole one. 90 ms of 100 are full.
TEST(RateController, LearnsNothingFromTheFirstIteration) {
  RateController controller({.density = 0.02});
  for (int64_t i = 1; i <= 40; ++i) {
    const double came = i == 1 ? 0.5 : 1;
    EXPECT_FALSE(controller.add({.iteration = i,
                                 .computing = Seconds{0.100},
                                 .waited = {},
                                 .came = Bytes{came * 1e6},
                                 .in_flight = Seconds{came * 0.090}}))
        << i;
  }
}

// The line fell to half its rate, the density follows from iteration 6 on. In iteration 7 comes the last update of
// before, and the first one since: of what they hold together nothing is learned.
TEST(RateController, LearnsNothingFromTwoUpdatesOfDifferentDensities) {
  RateController controller({.density = 0.02});
  const auto report = [&](int64_t iteration, double waited, double updates, double in_flight) {
    return controller.add({.iteration = iteration,
                           .computing = Seconds{0.100},
                           .waited = Seconds{waited},
                           .came = Bytes{updates * 1e6},
                           .in_flight = Seconds{in_flight}});
  };
  for (int64_t i = 1; i <= 2; ++i) EXPECT_FALSE(report(i, 0, 1, 0.090));
  const auto decision = report(3, 0.080, 1, 0.180);
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->first_iteration, 6);
  EXPECT_DOUBLE_EQ(decision->density, 0.01);  // 0.9 * 100 / 180 of it
  for (int64_t i = 4; i <= 6; ++i) EXPECT_FALSE(report(i, 0.080, 1, 0.180));
  EXPECT_FALSE(report(7, 0.080, 1.5, 0.270));
  for (int64_t i = 8; i <= 40; ++i) EXPECT_FALSE(report(i, 0, 0.5, 0.090)) << i;
}

// Without staleness an iteration waits for its last group on every line.
TEST(RateController, WaitsTellNothingWhereTheyCannotBeAvoided) {
  RateController controller({.density = 0.02, .late = false});
  for (int64_t i = 1; i <= 20; ++i) {
    EXPECT_FALSE(controller.add({.iteration = i,
                                 .computing = Seconds{kComputing},
                                 .waited = Seconds{0.1},
                                 .came = Bytes{kWhole * 0.02},
                                 .in_flight = Seconds{0.150}}));
  }
}

}  // namespace
}  // namespace tombolo::tune
