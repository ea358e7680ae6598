#include "ui/perform_commands/prompt_gaps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::perform_commands {
namespace {

// Rank 1 of two answered: of 10 s it trained 4 and filled 5, and training waited twice, 50 ms.
TEST(PromptUse, CountsTheRanksThatAnswered) {
  trace::Trace trace;
  const auto compute = [&](int32_t rank, int64_t start_ms, int64_t end_ms, int64_t iteration) {
    trace.intervals.push_back({.rank = rank,
                               .iteration = iteration,
                               .start = {start_ms * 1'000'000},
                               .end = {end_ms * 1'000'000}});
  };
  EXPECT_EQ(prompt_use(trace), std::nullopt);
  compute(0, 1'000, 11'000, 1);
  compute(1, 2'000, 4'000, 1);
  compute(1, 8'000, 10'000, 2);
  compute(1, 20'000, 30'000, 0);  // an evaluation
  const std::pair<const char*, double> records[] = {
      {"prompts_s", 5},        {"prompt_layers", 700},      {"prompt_holds", 2},
      {"prompt_held_s", 0.05}, {"prompt_held_max_s", 0.03}, {"prompt_guard_s", 0.001}};
  for (const auto& [name, value] : records)
    trace.records.push_back({.name = name, .rank = 1, .value = value});
  const PromptUse use = *prompt_use(trace);
  EXPECT_EQ(use.ranks, 1);
  EXPECT_EQ(use.layers, 700);
  EXPECT_DOUBLE_EQ(use.training_share, 0.4);
  EXPECT_DOUBLE_EQ(use.prompt_share, 0.5);
  EXPECT_EQ(use.holds, 2);
  EXPECT_DOUBLE_EQ(use.held_share, 0.005);
  EXPECT_EQ(use.held_max_s, 0.03);
  EXPECT_EQ(use.guard_s, 0.001);
  EXPECT_EQ(to_line(use, trace::Provenance::kMeasured),
            "  prompts: 700 layers on 1 rank for 50.0 % of the time, training 40.0 %, measured; "
            "training waited for 2 of them, 0.50 % of the time, 30 ms at most");
}

}  // namespace
}  // namespace tombolo::perform_commands
