#include "perform/launch/run_prompts.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tombolo::launch {
namespace {

TEST(RunPrompts, GoThroughTheEnvironment) {
  unsetenv(kPromptsVariable);
  EXPECT_EQ(prompts_of_environment().value(), std::nullopt);
  const RunPrompts prompts{.rank = 3,
                           .weights = "a \"folder\"",
                           .socket = "/run/x",
                           .context = 7,
                           .kv_bytes = 8,
                           .requests = 9,
                           .piece_ns = 10};
  setenv(kPromptsVariable, to_text(prompts).c_str(), 1);
  EXPECT_EQ(prompts_of_environment().value(), prompts);
  setenv(kPromptsVariable, R"({"rank":-1})", 1);
  EXPECT_FALSE(prompts_of_environment());
  unsetenv(kPromptsVariable);
}

}  // namespace
}  // namespace tombolo::launch
