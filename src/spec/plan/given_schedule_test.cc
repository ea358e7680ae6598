#include "spec/plan/given_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/plan/job.h"
#include "spec/plan/plan_file.h"
#include "support/job_texts.h"

namespace tombolo::plan {
namespace {

using action::Action;
using action::ActionKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(GivenText, OfAnOrder) {
  const std::vector<Action> order = {{ActionKind::kForward, 0, 0},
                                     {ActionKind::kReceiveGradient, 0, 0},
                                     {ActionKind::kRecompute, 0, 0},
                                     {ActionKind::kBackward, 0, 0}};
  EXPECT_EQ(order_text(order), "0F0 0RECV_B0 0R0 0B0");
  EXPECT_EQ(*parse_order("  0F0 0RECV_B0   0R0 0B0 "), order);
  EXPECT_TRUE(parse_order("")->empty());
  EXPECT_THAT(parse_order("0F0 zero").error().text(), HasSubstr("\"zero\" is not an action"));
  EXPECT_THAT(parse_order(std::string(1000, 'F')).error().text(), HasSubstr("FF...\" is not"));
  EXPECT_FALSE(parse_order("99999999999F0"));
}

TEST(GivenText, OfALink) {
  const LinkOrder link{.boundary = 1, .gradients = true, .cell = 2, .transfers = {{0, 0}, {1, 0}}};
  EXPECT_EQ(link_text(link), "1 B 2: 0.0 1.0");
  EXPECT_EQ(*parse_link("1 B 2: 0.0 1.0"), link);
  const LinkOrder part{
      .boundary = 0, .gradients = false, .cell = 1, .transfers = {{4, 0}, {5, 0}}, .first = 4};
  EXPECT_EQ(link_text(part), "0 F 1/4: 4.0 5.0");
  EXPECT_EQ(*parse_link("0 F 1/4: 4.0 5.0"), part);
  for (const char* wrong : {"0 F 0/: 0.0", "0 F /1: 0.0", "0 F 0/-1: 0.0", "0 F 0/1/2: 0.0",
                            "0 F 0/99999999999: 0.0", "", "0 F 0", "0 G 0: 0.0", "0 F: 0.0",
                            "0 F 0 0: 0.0", "x F 0: 0.0", "99999999999 F 0: 0.0", "0 F 0.5: 0.0"}) {
    EXPECT_THAT(parse_link(wrong).error().text(), HasSubstr("is not the order of a link")) << wrong;
  }
  for (const char* transfer : {"0", "0.", ".0", "0.99999999999", "a.b", "0.0.0"}) {
    EXPECT_THAT(parse_link(fmt::format("0 F 0: {}", transfer)).error().text(),
                HasSubstr("is no transfer"))
        << transfer;
  }
}

// In a Plan: the text stands there, and what is wrong with it is said with the place.
TEST(GivenText, InAPlan) {
  Plan plan = *lay_out(*parse_job(test::kTwoCpus, "job.toml"));
  plan.given =
      GivenSchedule{.name = "found",
                    .ranks = {{{ActionKind::kForward, 0, 0}}, {{ActionKind::kForward, 1, 0}}},
                    .links = {{.boundary = 0, .transfers = {{0, 0}}}},
                    .release = {}};
  std::string text = to_json_text(plan);
  EXPECT_THAT(text, HasSubstr("\"1F0\""));
  EXPECT_THAT(text, HasSubstr("\"0 F 0: 0.0\""));
  EXPECT_EQ(*parse_plan(text, "plan.json"), plan);
  text.replace(text.find("\"1F0\""), 5, "\"one\"");
  const auto wrong = parse_plan(text, "plan.json");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().text(), HasSubstr("ranks"));
  EXPECT_THAT(wrong.error().text(), HasSubstr("[1]: \"one\" is not an action"));
}

}  // namespace
}  // namespace tombolo::plan
