#include "ui/serve/flex_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/fake_backend.h"

namespace tombolo::serve {
namespace {

using generate::Refusal;
using generate::Refused;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr SimDuration kTick{1'000'000};
const Refused kFull{Refusal::kBusy, "full"};

class Flex : public testing::Test {
 protected:
  std::unique_ptr<Answer> ask(int64_t id, bool flex = true) {
    auto answer = backend_.admit({.id = id, .tokens = {1}, .tokens_max = 2, .flex = flex});
    return answer ? std::move(*answer) : nullptr;
  }
  std::vector<int64_t> begun() const {
    std::vector<int64_t> ids;
    for (const auto& request : inner_.requests()) ids.push_back(request.id);
    return ids;
  }

  FakeBackend inner_;
  ManualClock clock_;
  FlexBackend backend_{inner_, {.patience = kTick * 10, .pause = kTick}, clock_};
};

// A request that may not wait is refused as usual; those that may are served in order.
TEST_F(Flex, TheLongestWaitingIsFirst) {
  inner_.says = {7};
  inner_.refuses = kFull;
  EXPECT_EQ(ask(1, false), nullptr);
  const auto first = ask(2), second = ask(3);
  EXPECT_EQ(backend_.waiting(), 2);
  EXPECT_EQ(first->next(kTick).kind, StepKind::kWaiting);
  inner_.refuses.reset();
  const auto third = ask(4);  // there is room by now, but two were before
  EXPECT_EQ(second->next(kTick).kind, StepKind::kWaiting);
  EXPECT_EQ(third->next(kTick).kind, StepKind::kWaiting);
  EXPECT_THAT(begun(), ElementsAre());
  EXPECT_EQ(first->next(kTick).kind, StepKind::kWaiting);  // admitted
  EXPECT_EQ(first->next(kTick).token, 7);
  EXPECT_EQ(second->next(kTick).kind, StepKind::kWaiting);
  third->next(kTick);
  EXPECT_THAT(begun(), ElementsAre(2, 3, 4));
  EXPECT_EQ(backend_.waiting(), 0);
  EXPECT_EQ(second->next(kTick).token, 7);
}

TEST_F(Flex, WhoLeavesMakesWayForTheNext) {
  inner_.refuses = kFull;
  auto first = ask(1);
  const auto second = ask(2);
  first.reset();
  inner_.refuses.reset();
  second->next(kTick);
  EXPECT_THAT(begun(), ElementsAre(2));
}

TEST_F(Flex, NobodyWaitsLongerThanPatience) {
  inner_.refuses = kFull;
  const auto answer = ask(1);
  Step step;
  while (step.kind == StepKind::kWaiting) step = answer->next(kTick);
  EXPECT_EQ(step.kind, StepKind::kLost);
  EXPECT_THAT(step.message, HasSubstr("No room came within 10 ms"));
  EXPECT_EQ(clock_.now(), SimTime{} + kTick * 11);
  EXPECT_EQ(backend_.waiting(), 0);
}

TEST_F(Flex, WhatIsRefusedForWhatItIsDoesNotWait) {
  inner_.refuses = Refused{Refusal::kTooLong, "long"};
  EXPECT_EQ(ask(1), nullptr);
  inner_.refuses = kFull;
  const auto waits = ask(2);
  inner_.refuses = Refused{Refusal::kTooLong, "long"};
  EXPECT_EQ(waits->next(kTick).kind, StepKind::kFailed);
  EXPECT_EQ(backend_.waiting(), 0);
}

// Before its first token it waits again; behind it the answer is lost.
TEST_F(Flex, WhatIsLostWaitsAgain) {
  inner_.says = {7, 8};
  inner_.lost_after = 0;
  const auto answer = ask(1);
  EXPECT_EQ(answer->next(kTick).kind, StepKind::kWaiting);
  EXPECT_EQ(backend_.waiting(), 1);
  inner_.lost_after = 1;
  EXPECT_EQ(answer->next(kTick).kind, StepKind::kWaiting);
  EXPECT_EQ(answer->next(kTick).token, 7);
  EXPECT_EQ(answer->next(kTick).kind, StepKind::kLost);
  EXPECT_EQ(backend_.waiting(), 0);
}

TEST_F(Flex, NobodyWaitsForWhoWillNotReturn) {
  inner_.refuses = kFull;
  const auto answer = ask(1);
  inner_.die();
  EXPECT_EQ(ask(2), nullptr);
  EXPECT_EQ(answer->next(kTick).kind, StepKind::kLost);
}

}  // namespace
}  // namespace tombolo::serve
