#include "steer/tune/decision_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// Of ranks 2 and 1, from iteration 1 on; each hears of a new density when it may.
std::vector<trace::Record> densities(const std::vector<double>& of_1,
                                     const std::vector<double>& of_2) {
  std::vector<trace::Record> out;
  const auto add = [&](int32_t rank, const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const auto iteration = static_cast<int64_t>(i) + 1;
      out.push_back({"density", iteration, rank, {100 * iteration}, values[i]});
    }
  };
  out.push_back({"loss", 3, 0, {300}, 0.02});
  add(2, of_2);
  add(1, of_1);
  return out;
}

std::vector<std::pair<int64_t, std::string>> reasons(const std::vector<trace::Record>& records) {
  std::vector<std::pair<int64_t, std::string>> out;
  for (const trace::Record& each : records) {
    if (each.reason.empty()) continue;
    EXPECT_EQ(each.name, "density");
    EXPECT_EQ(each.rank, 1);
    out.emplace_back(each.iteration, each.reason);
  }
  return out;
}

TEST(DecisionRecords, AReasonStandsOnceWhereItsDensityBegins) {
  auto records = densities({0.01, 0.01, 0.02, 0.02, 0.01}, {0.01, 0.01, 0.01, 0.02, 0.01});
  const std::vector<DensityDecision> decisions = {
      {.first_iteration = 3, .density = 0.02, .reason = "up"},
      {.first_iteration = 5, .density = 0.01, .reason = "down"},
      {.first_iteration = 6, .density = 0.02, .reason = "behind the end"}};
  add_decisions(decisions, {}, records);
  EXPECT_THAT(reasons(records), ElementsAre(Pair(3, "up"), Pair(5, "down")));
}

// Rank 1 hears of the first an iteration late, and of the second when the third is there.
TEST(DecisionRecords, AReasonWaitsForARankThatHearsLate) {
  auto records = densities({0.01, 0.01, 0.01, 0.02, 0.02, 0.02, 0.04}, {});
  const std::vector<DensityDecision> decisions = {
      {.first_iteration = 3, .density = 0.02, .reason = "up"},
      {.first_iteration = 6, .density = 0.03, .reason = "missed"},
      {.first_iteration = 7, .density = 0.04, .reason = "on"}};
  add_decisions(decisions, {}, records);
  EXPECT_THAT(reasons(records), ElementsAre(Pair(4, "up"), Pair(7, "on")));
}

TEST(DecisionRecords, WhatWasBelievedStandsBesideTheDensityOfItsIteration) {
  auto records = densities({0.01, 0.01, 0.02}, {});
  const std::vector<LineBelief> beliefs = {
      {2, BytesPerSecond{0}}, {3, BytesPerSecond{5e5}}, {4, BytesPerSecond{6e5}}};
  const size_t before = records.size();
  add_decisions({}, beliefs, records);
  ASSERT_EQ(records.size(), before + 1);
  EXPECT_EQ(records.back(), (trace::Record{"line_rate", 3, 1, {300}, 5e5}));
  std::vector<trace::Record> none;
  add_decisions({}, beliefs, none);
  EXPECT_THAT(none, IsEmpty());
}

}  // namespace
}  // namespace tombolo::tune
