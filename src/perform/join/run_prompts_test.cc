#include "perform/join/run_prompts.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tombolo::join {
namespace {

TEST(RunPrompts, GoThroughTheEnvironment) {
  unsetenv(kPromptsVariable);
  EXPECT_EQ(prompts_of_environment().value(), std::nullopt);
  const RunPrompts prompts{
      .pipelines = {{3, 1}, {2}},
      .weights = "a \"folder\"",
      .socket = "/run/x",
      .context = 7,
      .kv_bytes = 8,
      .requests = 9,
      .piece_ns = 10,
      .guard_ns = 11,
      .within_ns = 12,
      .gaps = {{3,
                {.period = {100},
                 .computations = {{{action::ActionKind::kForward, 1, 2}, {0}, {40}},
                                  {{action::ActionKind::kUpdate, 1, -1}, {90}, {130}}}}}},
      .load = PromptLoad{1, 2, 3, 4}};
  setenv(kPromptsVariable, to_text(prompts).c_str(), 1);
  EXPECT_EQ(prompts_of_environment().value(), prompts);
  setenv(kPromptsVariable, R"({"pipelines":[[-1]]})", 1);
  EXPECT_FALSE(prompts_of_environment());
  unsetenv(kPromptsVariable);
  RunPrompts twice = prompts;
  twice.pipelines[1][0] = 3;
  EXPECT_FALSE(parse_run_prompts(to_text(twice)));
  twice.pipelines[1].clear();
  EXPECT_FALSE(parse_run_prompts(to_text(twice)));
  EXPECT_EQ(pipeline_of(prompts, 1), 0U);
  EXPECT_EQ(pipeline_of(prompts, 2), 1U);
  EXPECT_EQ(pipeline_of(prompts, 0), std::nullopt);
  EXPECT_EQ(socket_of(prompts, 0), "/run/x");
  EXPECT_EQ(socket_of(prompts, 1), "/run/x-1");
  EXPECT_EQ(socket_of({.socket = "out/prompts.socket"}, 2), "out/prompts-2.socket");
  EXPECT_TRUE(windows_of(prompts, 3));
  EXPECT_FALSE(windows_of(prompts, 2));
}

TEST(RunPrompts, RefuseGapsThatAreNone) {
  const RunPrompts prompts{
      .weights = "w",
      .socket = "s",
      .gaps = {{0,
                {.period = {100},
                 .computations = {{{action::ActionKind::kForward, 0, 0}, {10}, {40}}}}}}};
  const std::string good = to_text(prompts);
  ASSERT_TRUE(parse_run_prompts(good));
  const std::string word = "0F0 10 40";
  for (const char* bad : {"0F0 10", "0F0 10 40 50", "0X0 10 40", "0F0 40 10", "0F0 -1 40",
                          "0F0 0 101", "", "0F0 10 99999999999999999999999"}) {
    std::string text = good;
    text.replace(text.find(word), word.size(), bad);
    EXPECT_FALSE(parse_run_prompts(text)) << bad;
  }
}

// Half of the ranks keep theirs, or fewer, rather than that no process starts.
TEST(RunPrompts, FitIntoTheEnvironment) {
  RunPrompts prompts{.weights = "w", .socket = "s"};
  RankGaps gaps{0, {.period = {1'000'000}, .computations = {}}};
  for (int32_t m = 0; m < 1000; ++m) {
    gaps.plan.computations.push_back(
        {{action::ActionKind::kForward, 0, m}, {100 * m}, {100 * m + 99}});
  }
  for (gaps.rank = 0; gaps.rank < 64; ++gaps.rank) prompts.gaps.push_back(gaps);
  const std::string text = to_text(prompts);
  EXPECT_LE(text.size(), kPromptsTextMax);
  EXPECT_EQ(parse_run_prompts(text)->gaps.size(), 4u);
}

}  // namespace
}  // namespace tombolo::join
