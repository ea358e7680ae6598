#include "predict/strand/profile_of_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace tombolo::strand {
namespace {

// Of n tosses P(fewer than k heads) is the sum of the first k numbers of a row of Pascal's triangle over 2^n:
// of 6 1/64, twice that is 3.1 %; of 15 (1 + 15 + 105 + 455) / 32768, twice that 3.5 %, and with 1365 more 11.8 %.
TEST(ProfileOfSamples, MediansHaveIntervalsOfOrderStatistics) {
  std::vector<double> values(15);
  std::iota(values.rbegin(), values.rend(), 1.0);
  const Measured fifteen = measured(values);
  EXPECT_EQ(fifteen.median, 8);
  EXPECT_EQ(fifteen.low, 4);
  EXPECT_EQ(fifteen.high, 12);
  EXPECT_DOUBLE_EQ(fifteen.spread, (11.5 - 4.5) / 1.349 / 8);  // quartiles 4.5 and 11.5

  values.resize(6);  // 10 to 15
  EXPECT_EQ(measured(values).low, 10);
  EXPECT_EQ(measured(values).high, 15);
  EXPECT_EQ(measured({3, 2}).low, 2);  // all of them
  EXPECT_EQ(measured({-1, 1}).spread, 0);
  values.assign(20, 1);
  values[0] = 1000;  // one of them was interrupted
  EXPECT_EQ(measured(values), (Measured{.median = 1, .low = 1, .high = 1, .spread = 0}));
}

struct Strands {
  Dag forward, backward;
};
Strands strands() {
  Strands s;
  s.forward.add({.name = "FC1"});
  s.backward.add({.name = "bAR1", .kind = Kind::kTensor, .stream = Stream::kLocal});
  return s;
}

// Seven repeats of 100 us and 60 us one after the other. The second time both take so much more: of 7 values the
// interval of the median is all of them.
plan::OverlapSamples samples(const std::vector<int64_t>& more_ns, int64_t first_beside_ns) {
  plan::OverlapSamples out;
  out.operators = {{.name = "FC1"}, {.name = "bAR1"}};
  out.pairs = {{.first = "FC1", .second = "bAR1"}};
  for (const int64_t more : more_ns) {
    out.operators[0].alone_ns.push_back(100'000);
    out.operators[0].again_ns.push_back(100'000 + more);
    out.operators[1].alone_ns.push_back(60'000);
    out.operators[1].again_ns.push_back(60'000);
    out.pairs[0].first_ns.push_back(first_beside_ns);
    out.pairs[0].second_ns.push_back(80'000);
  }
  return out;
}

const std::vector<int64_t> kQuiet = {-4000, -2000, 0, 0, 0, 2000, 4000};
const std::vector<int64_t> kNoisy = {-60'000, -20'000, 0, 0, 0, 20'000, 50'000};

MeasuredOverlap overlap_of(const plan::OverlapSamples& samples) {
  const Strands s = strands();
  const auto measured = measured_overlap(samples, s.forward, s.backward);
  EXPECT_TRUE(measured) << measured.error().text();
  return *measured;
}

TEST(ProfileOfSamples, RowsAreMediansByClass) {
  const MeasuredOverlap quiet = overlap_of(samples(kQuiet, 120'000));
  EXPECT_EQ(quiet.repeats, 7);
  const MeasuredPair& pair = quiet.pairs[0];
  EXPECT_EQ(pair.times,
            (PairTimes{.first = 100, .second = 60, .first_beside = 120, .second_beside = 80}));
  EXPECT_EQ(pair.apart, 160);
  EXPECT_EQ(pair.beside, 120);
  EXPECT_EQ(pair.saved.median, 40);
  EXPECT_EQ(pair.saved.low, 38);  // 160 less 2, less 120
  EXPECT_EQ(pair.saved.high, 42);
  EXPECT_EQ(pair.null.median, 0);
  EXPECT_EQ(pair.null_most(), 4);
  EXPECT_TRUE(pair.measurable());
  const Profile profile = quiet.profile();
  ASSERT_EQ(profile.rows.size(), 3U);
  EXPECT_EQ(profile.rows[0],
            (ProfileRow{.first = "FC1", .microseconds = {.first = 100}, .repeats = 14}));
  EXPECT_EQ(profile.rows[1].first, "bAR1");
  EXPECT_EQ(profile.rows[2].first, "product");
  EXPECT_EQ(profile.rows[2].second, "local");
  EXPECT_EQ(profile.rows[2].microseconds, pair.times);
  EXPECT_EQ(profile.rows[2].repeats, 7);
  EXPECT_EQ(*parse_profile(to_csv(profile), "overlap.csv"), profile);
}

// Half of what is alone takes 200 times as long: the file says so little of it as one can.
TEST(ProfileOfSamples, AFileOfABusyMachineCanBeRead) {
  plan::OverlapSamples busy = samples(kQuiet, 120'000);
  for (size_t i = 0; i < 3; ++i)
    busy.operators[0].alone_ns[i] = busy.operators[0].again_ns[i] = 20'000'000;
  const Profile profile = overlap_of(busy).profile();
  EXPECT_EQ(profile.rows[0].spread, kSpreadMax);
  EXPECT_EQ(*parse_profile(to_csv(profile), "overlap.csv"), profile);
}

// The same saving where one after the other and once more differ by up to 60 us.
TEST(ProfileOfSamples, WhatTheNullExceedsIsNotMeasurable) {
  const MeasuredOverlap noisy = overlap_of(samples(kNoisy, 120'000));
  EXPECT_EQ(noisy.pairs[0].saved.median, 40);
  EXPECT_EQ(noisy.pairs[0].null_most(), 60);
  EXPECT_FALSE(noisy.pairs[0].measurable());
  const Profile profile = noisy.profile();
  ASSERT_EQ(profile.rows.size(), 2U);
  EXPECT_EQ(profile.rows[1].first, "bAR1");
}

// In one of seven repeats the pair takes 300 us: its saving is 40 us, and may be any from -140 to 42.
TEST(ProfileOfSamples, WhatMayBeNothingIsNotMeasurable) {
  plan::OverlapSamples samples_in = samples(kQuiet, 120'000);
  samples_in.pairs[0].first_ns[3] = 300'000;
  const MeasuredPair pair = overlap_of(samples_in).pairs[0];
  EXPECT_EQ(pair.saved.median, 40);
  EXPECT_EQ(pair.saved.low, -140);
  EXPECT_EQ(pair.saved.high, 42);
  EXPECT_FALSE(pair.measurable());
}

// Beside each other they take 200 us, 40 more than apart.
TEST(ProfileOfSamples, APairThatCostsIsMeasured) {
  const MeasuredOverlap costs = overlap_of(samples(kQuiet, 200'000));
  EXPECT_EQ(costs.pairs[0].saved.median, -40);
  EXPECT_TRUE(costs.pairs[0].measurable());
  EXPECT_EQ(costs.profile().rows.size(), 3U);
}

TEST(ProfileOfSamples, RefusesSamplesOfOthers) {
  const Strands s = strands();
  const auto message = [&](const plan::OverlapSamples& samples) {
    const auto answer = measured_overlap(samples, s.forward, s.backward);
    return answer ? "" : answer.error().text();
  };
  plan::OverlapSamples other = samples(kQuiet, 120'000);
  other.pairs[0].second = "AR1";
  EXPECT_THAT(message(other), ::testing::HasSubstr("\"AR1\" was measured in a pair and not alone"));
  other.operators[1].name = "A2A1";
  EXPECT_THAT(message(other), ::testing::HasSubstr("no operator of these strands"));
  other = samples(kQuiet, 120'000);
  other.pairs[0].first_ns.pop_back();
  EXPECT_THAT(message(other), ::testing::HasSubstr("7 times alone and 6 times in a pair"));
}

}  // namespace
}  // namespace tombolo::strand
