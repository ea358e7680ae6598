// A sound schedule is broken in every way there is; each is answered with its own message.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "spec/schedule/schedule.h"
#include "spec/schedule/schedule_csv.h"

namespace tombolo::schedule {
namespace {

using ::testing::HasSubstr;

const PipelineShape kThreeStages{3, 2, {true, true, false}};

// Rank 1 of the sound schedule:
//   1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1,1SEND_F1,1RECV_B0,1R0,1B0,1SEND_B0,1RECV_B1,1R1,1B1,
//   1SEND_B1,1U
std::string complaint(const std::function<void(RankActions&)>& damage, size_t rank = 1) {
  Schedule schedule = *build(layout::ScheduleKind::kGpipe, kThreeStages);
  damage(schedule.ranks[rank]);
  const Status status = validate(schedule, kThreeStages);
  return status ? "sound" : status.error().message;
}

RankActions::iterator find(RankActions& order, const char* text) {
  return std::find(order.begin(), order.end(), *action::parse_action(text));
}
auto without(const char* text) {
  return [=](RankActions& order) { order.erase(find(order, text)); };
}
auto also(const char* text) {
  return [=](RankActions& order) { order.insert(order.begin(), *action::parse_action(text)); };
}
auto swapped(const char* one, const char* other) {
  return [=](RankActions& order) { std::iter_swap(find(order, one), find(order, other)); };
}

// Two stages; pipeline 0 has three microbatches and pipeline 1 one.
TEST(Validate, PipelinesMayHaveUnlikeNumbersOfMicrobatches) {
  for (const std::string& name : layout::schedule_names()) {
    PipelineShape shape = shape_for(*layout::find_schedule(name), 2, 3);
    shape.replicas = 2;
    shape.microbatches_each = {3, 1};
    const Result<Schedule> schedule = build(*layout::find_schedule(name), shape);
    ASSERT_TRUE(schedule) << name << ": " << schedule.error().text();
    const auto forwards = [&](size_t rank) {
      const RankActions& order = schedule->ranks[rank];
      return std::count_if(order.begin(), order.end(), [](const auto& action) {
        return action.kind == action::ActionKind::kForward;
      });
    };
    EXPECT_EQ(forwards(0), 3 * shape.chunks) << name;
    EXPECT_EQ(forwards(1), shape.chunks) << name;
    Schedule broken = *schedule;
    broken.ranks[1][0].microbatch = 1;
    EXPECT_THAT(validate(broken, shape).error().text(), HasSubstr("there are microbatches 0 to 0"));
  }
}

TEST(Validate, AcceptsWhatIsSound) {
  EXPECT_EQ(complaint([](RankActions&) {}), "sound");
}

TEST(Validate, CountsRanks) {
  Schedule schedule = *build(layout::ScheduleKind::kGpipe, kThreeStages);
  schedule.ranks.pop_back();
  EXPECT_THAT(validate(schedule, kThreeStages).error().message,
              HasSubstr("2 ranks for 3 stages x 1 replicas"));
}

TEST(Validate, MissingWork) {
  for (const char* action : {"1F0", "1B1", "1R0", "1RECV_F1", "1SEND_F0", "1RECV_B0", "1SEND_B1"}) {
    EXPECT_THAT(complaint(without(action)),
                HasSubstr(std::string("broken at rank 1: ") + action + " is missing"));
  }
  EXPECT_THAT(complaint(without("1U")), HasSubstr("the optimizer update is missing at the end"));
}

// Every rank of one stage, or none, could be wrong in the same way; the gradient all-reduce has one
// right place.
TEST(Validate, SumsOfGradients) {
  const PipelineShape shape{.stages = 2, .microbatches = 2, .replicas = 2};
  const auto complaint_of = [&](const std::function<void(RankActions&)>& damage) {
    Schedule schedule = *build(layout::ScheduleKind::k1F1B, shape);
    damage(schedule.ranks[3]);
    const Status status = validate(schedule, shape);
    return status ? "sound" : status.error().message;
  };
  EXPECT_EQ(complaint_of([](RankActions&) {}), "sound");
  EXPECT_THAT(complaint_of(without("1REDUCE_GRAD")),
              HasSubstr("at rank 3: the replicas' gradients are not summed before the update"));
  EXPECT_THAT(complaint_of(swapped("1REDUCE_GRAD", "1B1")),
              HasSubstr("1REDUCE_GRAD must come right before the update"));
  EXPECT_THAT(complaint_of(without("1B0")), HasSubstr("broken at rank 3: 1B0 is missing"));
  EXPECT_THAT(complaint_of(swapped("1RECV_F0", "1RECV_F1")), HasSubstr("broken at rank 3"));
  EXPECT_THAT(complaint(also("1REDUCE_GRAD")), HasSubstr("this stage has no replicas"));
}

TEST(Validate, WorkTwice) { EXPECT_THAT(complaint(also("1F0")), HasSubstr("1F0 is there twice")); }

TEST(Validate, WorkThatDoesNotBelongHere) {
  EXPECT_THAT(complaint(also("2F0")), HasSubstr("2F0 belongs to another stage"));
  EXPECT_THAT(complaint(also("1E")), HasSubstr("1E does not belong into an iteration"));
  EXPECT_THAT(complaint(also("1C")), HasSubstr("1C does not belong into an iteration"));
  EXPECT_THAT(complaint(also("1F2")), HasSubstr("1F2: there are microbatches 0 to 1"));
  EXPECT_THAT(complaint(also("1F")), HasSubstr("1F: there are microbatches 0 to 1"));
  EXPECT_THAT(complaint(also("1U")), HasSubstr("1U must be the last action"));
  EXPECT_THAT(complaint(also("2R0"), 2), HasSubstr("2R0: this stage does not recompute"));
}

TEST(Validate, MessagesOverTheEdge) {
  EXPECT_THAT(complaint(also("0SEND_B0"), 0), HasSubstr("0SEND_B0 has no stage at the other end"));
  EXPECT_THAT(complaint(also("0RECV_F0"), 0), HasSubstr("0RECV_F0 has no stage at the other end"));
  EXPECT_THAT(complaint(also("2SEND_F0"), 2), HasSubstr("2SEND_F0 has no stage at the other end"));
  EXPECT_THAT(complaint(also("2RECV_B0"), 2), HasSubstr("2RECV_B0 has no stage at the other end"));
}

TEST(Validate, WrongOrders) {
  EXPECT_THAT(complaint(swapped("1F0", "1B0")), HasSubstr("1B0 comes before 1F0"));
  EXPECT_THAT(complaint(swapped("1F0", "1R0")), HasSubstr("1R0 comes before 1F0"));
  EXPECT_THAT(complaint(swapped("1R0", "1B0")), HasSubstr("1B0 comes before 1R0"));
  EXPECT_THAT(complaint(swapped("1RECV_F0", "1F0")), HasSubstr("1F0 comes before 1RECV_F0"));
  EXPECT_THAT(complaint(swapped("1F0", "1SEND_F0")), HasSubstr("1SEND_F0 comes before 1F0"));
  // A recomputation may run ahead of the gradient, its backward may not.
  EXPECT_EQ(complaint(swapped("1RECV_B0", "1R0")), "sound");
  const auto too_late = [](RankActions& order) {
    swapped("1RECV_B0", "1R0")(order);
    swapped("1RECV_B0", "1B0")(order);
  };
  EXPECT_THAT(complaint(too_late), HasSubstr("1B0 comes before 1RECV_B0"));
  EXPECT_THAT(complaint(swapped("1B0", "1SEND_B0")), HasSubstr("1SEND_B0 comes before 1B0"));
  EXPECT_THAT(complaint(swapped("2RECV_F0", "2F0"), 2), HasSubstr("2F0 comes before 2RECV_F0"));
}

TEST(Validate, PairsThatDisagree) {
  // Rank 1 takes microbatch 1 first, in itself soundly; rank 0 sends 0 first.
  const auto turned = [](RankActions& order) {
    for (action::Action& action : order) {
      const bool forward = action.kind == action::ActionKind::kForward ||
                           action.kind == action::ActionKind::kReceiveActivation ||
                           action.kind == action::ActionKind::kSendActivation;
      if (forward) action.microbatch = 1 - action.microbatch;
    }
  };
  EXPECT_THAT(complaint(turned),
              HasSubstr("its message 0 from rank 0 is 0SEND_F0, but it receives 1RECV_F1"));
}

// Both orders are sound for each rank, but rank 0 wants gradient 0 before it sends activation 1,
// and rank 1 wants activation 1 before it sends gradient 0.
TEST(Validate, Deadlocks) {
  const Schedule schedule = *parse_csv(
      "0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1,0U\n"
      "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1,1U\n",
      "deadlock.csv");
  const Status status = validate(schedule, {2, 2, {}});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message,
              HasSubstr("rank 0: it waits for 0RECV_B0 forever: the ranks wait for one another"));
}

}  // namespace
}  // namespace tombolo::schedule
