#include "ui/predict_commands/policy_choice.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/json.h"

namespace tombolo::predict_commands {
namespace {

TEST(PolicyChoice, OfASchedulesNameIsThatName) {
  ChosenPolicy chosen;
  chosen.plan.parallelism.schedule = layout::ScheduleKind::kGpipe;
  EXPECT_EQ(to_json(policy_json(chosen), -1), "{\"winner\":\"gpipe\"}");
}

TEST(PolicyChoiceDeathTest, WhatWasAdjustedWasFound) {
  std::ostringstream out;
  ChosenPolicy chosen;
  chosen.plan.parallelism.schedule = layout::ScheduleKind::kGpipe;
  chosen.adjustment.emplace();
  EXPECT_DEATH(print_policy(out, chosen), "schedule \"gpipe\" was adjusted without a search");
  EXPECT_DEATH(policy_json(chosen), "was adjusted without a search");
  chosen.best.emplace();
  EXPECT_DEATH(print_policy(out, chosen), "the best schedule of none");
}

}  // namespace
}  // namespace tombolo::predict_commands
