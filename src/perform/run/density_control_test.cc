#include "perform/run/density_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "spec/plan/job.h"
#include "support/job_texts.h"

namespace tombolo::run {
namespace {

using ::testing::HasSubstr;
constexpr SimDuration kMs{1'000'000};

plan::Plan plan_with(const std::string& density) {
  const auto job = plan::parse_job(
      std::string(test::kApart) + "[run]\nsteps = 100\n[exchange]\nmode = \"sparse\"\n" + density,
      "job.toml");
  CHECK(job, "{}", job.error().text());
  return *plan::lay_out(*job);
}

// Two stages of two replicas each. Of stage 1 the exchange takes `in_flight` for 100 kB; nothing waits long on
// stage 0, whose line is idle.
std::optional<tune::DensityDecision> report(DensityControl& control, const plan::Plan& plan,
                                            int64_t iteration, int64_t in_flight_ms,
                                            int64_t waited_ms) {
  std::optional<tune::DensityDecision> change;
  for (const layout::Placement& place : plan.ranks) {
    const bool slow = place.stage == 1;
    stage::IterationReport of{.iteration = iteration};
    of.exchange = stage::ExchangeReport{.computing = kMs * 100,
                                        .waited = slow ? kMs * waited_ms : SimDuration{},
                                        .bytes = slow ? 100'000 : 1'000,
                                        .in_flight = slow ? kMs * in_flight_ms : SimDuration{}};
    EXPECT_FALSE(change) << "decided before all ranks had reported";
    change = control.add(place.rank, of);
  }
  return change;
}

TEST(DensityControl, AReportThatComesTwiceCountsOnce) {
  const plan::Plan plan = plan_with("density = 0.01\ndensity_range = [0.002, 0.05]\n");
  DensityControl control(plan, "", false);
  control.begin(1);
  EXPECT_FALSE(report(control, plan, 1, 90, 0));
  stage::IterationReport of{.iteration = 2};
  of.exchange = stage::ExchangeReport{
      .computing = kMs * 100, .waited = kMs * 80, .bytes = 100'000, .in_flight = kMs * 180};
  for (size_t i = 0; i < plan.ranks.size(); ++i)
    EXPECT_FALSE(control.add(0, of)) << "the other ranks have not reported";
  for (size_t rank = 1; rank + 1 < plan.ranks.size(); ++rank)
    EXPECT_FALSE(control.add(static_cast<int32_t>(rank), of));
  EXPECT_TRUE(control.add(static_cast<int32_t>(plan.ranks.size()) - 1, of));
  EXPECT_FALSE(control.add(0, of)) << "all had";
}

// 100 kB in 180 ms, of which 90 may be taken: half of the density. Held up by 80 % more than the computing, one
// report is enough, but not that of the first iteration; the decision holds three iterations later.
TEST(DensityControl, DecidesByTheStageWhoseLineIsBusiest) {
  const plan::Plan plan = plan_with("density = 0.01\ndensity_range = [0.002, 0.05]\n");
  DensityControl control(plan, "", false);
  ASSERT_TRUE(control.is_on());
  EXPECT_EQ(control.begin(1)->density, 0.01);
  EXPECT_FALSE(report(control, plan, 1, 180, 80));
  const auto change = report(control, plan, 2, 180, 80);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->first_iteration, 5);
  EXPECT_EQ(change->before, 0.01);
  EXPECT_DOUBLE_EQ(change->density, 0.005);
  EXPECT_THAT(to_line(*change),
              HasSubstr("density 0.01 -> 0.005 from iteration 5 on: the line carries "
                        "4.44 Mbps: at density 0.01 an exchange takes 180 ms of"));
  // Reports of the density before say nothing more.
  for (int64_t i = 3; i < 7; ++i) EXPECT_FALSE(report(control, plan, i, 180, 80));
  EXPECT_EQ(control.history().newest().size(), 1u);
}

// Of the epoch that ends with a Trace; what was decided before it is in use from its beginning.
TEST(DensityControl, ATraceSaysWhatItsEpochDecided) {
  const plan::Plan plan = plan_with("density = 0.01\ndensity_range = [0.002, 0.05]\n");
  DensityControl control(plan, "", false);
  control.begin(1);
  report(control, plan, 1, 180, 80);
  ASSERT_TRUE(report(control, plan, 2, 180, 80));
  std::vector<trace::Record> records = {{"density", 4, 0, {40}, 0.01},
                                        {"density", 5, 0, {50}, 0.005}};
  std::vector<trace::Record> again = records;
  control.add_records(records);
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].reason, "");
  EXPECT_EQ(records[1].reason, control.history().newest()[0].reason);
  EXPECT_EQ(records[2].name, "line_rate");
  EXPECT_EQ(records[3],
            (trace::Record{"line_rate", 5, 0, {50}, control.history().newest()[0].rate.value}));
  control.begin(4);
  control.add_records(again);
  EXPECT_EQ(again.size(), 2u);
  EXPECT_EQ(again[1].reason, "");
}

TEST(DensityControl, AReplicaThatWaitsForAnotherDoesNotBlameTheLine) {
  const plan::Plan plan = plan_with("density = 0.01\ndensity_range = [0.002, 0.05]\n");
  DensityControl control(plan, "", false);
  control.begin(1);
  for (int64_t i = 1; i < 10; ++i) {
    for (const layout::Placement& place : plan.ranks) {
      stage::IterationReport of{.iteration = i};
      of.exchange = stage::ExchangeReport{.computing = kMs * (place.replica == 0 ? 40 : 100),
                                          .waited = place.replica == 0 ? kMs * 60 : SimDuration{},
                                          .bytes = 100'000,
                                          .in_flight = kMs * 85};
      EXPECT_FALSE(control.add(place.rank, of));
    }
  }
}

// By the next epoch of this launcher, and by a launcher that continues after this one.
TEST(DensityControl, WhatIsInUseIsOrderedAgain) {
  const plan::Plan plan = plan_with("density = 0.01\ndensity_range = [0.002, 0.05]\n");
  const std::string file =
      fmt::format("{}/density-{}.json", std::filesystem::temp_directory_path().string(), getpid());
  DensityControl control(plan, file, false);
  control.begin(1);
  EXPECT_FALSE(report(control, plan, 1, 180, 80));
  ASSERT_TRUE(report(control, plan, 2, 180, 80));
  const auto order = control.begin(9);
  ASSERT_TRUE(order);
  EXPECT_EQ(order->first_iteration, 9);
  EXPECT_DOUBLE_EQ(order->density, 0.005);
  DensityControl next(plan, file, true);
  EXPECT_DOUBLE_EQ(next.begin(5)->density, 0.005);
  ASSERT_EQ(next.history().newest().size(), 1u) << "people are told what is in use, and why";
  EXPECT_EQ(to_line(next.history().newest()[0]), to_line(control.history().newest()[0]));
  // Of a run that begins it is not.
  DensityControl fresh(plan, file, false);
  EXPECT_EQ(fresh.begin(1)->density, 0.01);
  EXPECT_FALSE(std::filesystem::exists(file));
  // What says nothing of use stops no run: a file cut off, no JSON, a density out of the range.
  for (const char* text : {"", "{\"density\": 0.02", "[]",
                           "{\"first_iteration\": 4, \"before\": 0.01, \"density\": 0.2, "
                           "\"line_bytes_per_s\": 1.0, \"reason\": \"\"}"}) {
    ASSERT_TRUE(write_file(file, text));
    DensityControl damaged(plan, file, true);
    EXPECT_EQ(damaged.begin(5)->density, 0.01) << text;
    EXPECT_TRUE(damaged.history().newest().empty());
  }
  next.history().remove_file();
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(DensityControl, LeavesADensityThatAJobGivesAlone) {
  const plan::Plan plan = plan_with("density = 0.01\n");
  DensityControl control(plan, "", false);
  EXPECT_FALSE(control.is_on());
  EXPECT_FALSE(control.begin(1));
  EXPECT_FALSE(report(control, plan, 1, 180, 80));
}

}  // namespace
}  // namespace tombolo::run
