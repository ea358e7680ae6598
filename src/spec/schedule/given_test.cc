// Schedules on their way through a Plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "spec/schedule/schedule.h"
#include "support/test_links.h"

namespace tombolo::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const PipelineShape kShape{
    .stages = 2, .microbatches = 2, .replicas = 2, .cell = 2, .shared = {true}};

// 1F1B of two pipelines that take turns on their link; the second one begins 1.5 ms later.
Schedule two_pipelines() {
  PipelineShape apart = kShape;
  apart.shared.clear();
  Schedule schedule = *build(layout::ScheduleKind::k1F1B, apart);
  take_turns(kShape, schedule);
  schedule.release = {{0}, {1'500'000}};
  return schedule;
}

TEST(GivenSchedule, HasComputationsAndTurns) {
  const plan::GivenSchedule given = to_given(two_pipelines());
  EXPECT_EQ(given.name, "1f1b");
  std::vector<std::string> ranks, links;
  for (const RankActions& order : given.ranks) ranks.push_back(plan::order_text(order));
  for (const LinkOrder& link : given.links) links.push_back(plan::link_text(link));
  EXPECT_THAT(ranks, ElementsAre("0F0 0F1 0B0 0B1", "0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1",
                                 "1F0 1B0 1F1 1B1"));
  EXPECT_THAT(links, ElementsAre("0 F 0: 0.0 1.0 0.1 1.1", "0 B 0: 0.0 1.0 0.1 1.1"));
  EXPECT_THAT(given.release, ElementsAre(0_ms, 1.5_ms));
}

TEST(GivenSchedule, ReadsBackWhatItWrites) {
  EXPECT_EQ(*from_given(to_given(two_pipelines()), kShape), two_pipelines());
  // Of every policy, with a recomputation that waits for its gradient or runs ahead of it.
  for (const std::string& name : layout::schedule_names()) {
    for (const bool recompute : {false, true}) {
      PipelineShape shape = shape_for(*layout::find_schedule(name), 3, 5);
      shape.replicas = 2;
      for (int32_t s = 0; recompute && s < shape.stages; ++s) {
        shape.recompute.push_back(s + 1 < shape.stages);
      }
      const Schedule schedule = *build(*layout::find_schedule(name), shape);
      const Result<Schedule> again = from_given(to_given(schedule), shape);
      ASSERT_TRUE(again) << name << ": " << again.error().text();
      EXPECT_EQ(*again, schedule) << name;
    }
  }
}

TEST(GivenSchedule, SaysWhatIsWrong) {
  const auto complaint = [](const std::function<void(plan::GivenSchedule&)>& damage) {
    plan::GivenSchedule given = to_given(two_pipelines());
    damage(given);
    const Result<Schedule> schedule = from_given(given, kShape);
    return schedule ? "sound" : schedule.error().text();
  };
  using Given = plan::GivenSchedule;
  EXPECT_EQ(complaint([](Given&) {}), "sound");
  EXPECT_THAT(complaint([](Given& g) { g.ranks.pop_back(); }),
              HasSubstr("given.ranks orders 3 ranks of 4"));
  const auto order = [](const char* text) { return *plan::parse_order(text); };
  EXPECT_THAT(complaint([&](Given& g) { g.ranks[1] = order("0F0 0SEND_F0"); }),
              HasSubstr("0SEND_F0 is no computation"));
  EXPECT_THAT(complaint([&](Given& g) { g.ranks[2] = order("0F0"); }),
              HasSubstr("given.ranks[2]: 0F0 is not of this rank"));
  for (const char* number : {"0F2", "0F2147483647", "2147483647F0"}) {
    EXPECT_THAT(complaint([&](Given& g) { g.ranks[0] = order(number); }),
                HasSubstr("is not of this rank"));
  }
  EXPECT_THAT(complaint([&](Given& g) { g.ranks[0] = order("0F0 0F1 0B0"); }),
              HasSubstr("broken at rank 0: 0B1 is missing"));
  EXPECT_THAT(complaint([](Given& g) { g.links[0] = *plan::parse_link("2147483647 F 0: 0.0"); }),
              HasSubstr("is not shared"));
  EXPECT_THAT(complaint([](Given& g) { g.links[0] = *plan::parse_link("0 F 0: 0.0 2.0 0.1 1.1"); }),
              HasSubstr("microbatch 0 of pipeline 2, which does not exist there"));
  EXPECT_THAT(complaint([](Given& g) { g.links.pop_back(); }),
              HasSubstr("it orders 1 shared links of 2"));
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  for (const double span : {-1.0, 1e300, kNone}) {
    EXPECT_THAT(complaint([&](Given& g) { g.release[1] = Seconds{span}; }),
                HasSubstr("given.release[1]"));
  }
  EXPECT_THAT(complaint([](Given& g) { g.release.pop_back(); }),
              HasSubstr("it releases 1 pipelines of 2"));
}

}  // namespace
}  // namespace tombolo::schedule
