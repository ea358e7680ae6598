#include "spec/plan/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/toml.h"

namespace tombolo::plan {
namespace {

Result<Optimizer> optimizer_of(const std::string& text) {
  const Value table = TRY(parse_toml(text, "job.toml"));
  return read_fields<Optimizer>(table, "job.toml", "optimizer");
}

TEST(Optimizer, IsWhatItWasWhereNothingNewIsAsked) {
  const Result<Optimizer> read = optimizer_of("learning_rate = 0.001\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->rule_in_use(), RateRule::kCosine);
  const Value written = write_fields(*read);
  // The seven old keys alone, so that older programs read such a Plan.
  EXPECT_EQ(written.get<Value::Table>()->size(), 7u);
}

TEST(Optimizer, IsReadAsItWasWritten) {
  const Result<Optimizer> read =
      optimizer_of("rule = \"wsd\"\ndecay_steps = 7\ndecay_embedding = false\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->rule, RateRule::kWsd);
  EXPECT_EQ(read->decay_steps, 7);
  EXPECT_EQ(read->decay_embedding, false);
  const Result<Optimizer> again =
      read_fields<Optimizer>(write_fields(*read), "plan.json", "optimizer");
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *read);
}

TEST(Optimizer, KnowsThreeAndClips) {
  const Result<Optimizer> read =
      optimizer_of("name = \"sgd\"\nmomentum = 0.8\nnesterov = true\nclip_norm = 1.0\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->name_in_use(), OptimizerName::kSgd);
  EXPECT_EQ(read->momentum, 0.8);
  EXPECT_EQ(read->nesterov, true);
  EXPECT_EQ(read->clip_norm, 1.0);
  EXPECT_EQ(read_fields<Optimizer>(write_fields(*read), "plan.json", "optimizer"), *read);
}

TEST(Optimizer, RefusesWhatItsUpdateDoesNotHave) {
  for (const auto& [text, word] : std::vector<std::pair<std::string, std::string>>{
           {"momentum = 0.9\n", "needs name = \"sgd\" or \"muon\""},
           {"nesterov = true\n", "needs name = \"sgd\" or \"muon\""},
           {"name = \"sgd\"\nmomentum = 1.0\n", "momentum"},
           {"clip_norm = 0\n", "must be positive"},
           {"clip_norm = -1\n", "must be positive"},
           {"name = \"lion\"\n", "adamw"}}) {
    const Result<Optimizer> read = optimizer_of(text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().text(), testing::HasSubstr(word)) << text;
  }
}

TEST(Optimizer, RefusesStepsOfDecayThatNoRuleUses) {
  const Result<Optimizer> linear = optimizer_of("rule = \"linear\"\ndecay_steps = 7\n");
  ASSERT_FALSE(linear);
  EXPECT_THAT(linear.error().message, testing::HasSubstr("needs rule = \"wsd\""));
  EXPECT_FALSE(optimizer_of("rule = \"wsd\"\ndecay_steps = 0\n"));
  EXPECT_FALSE(optimizer_of("rule = \"step\"\n"));
}

TEST(Parallelism, NamesEachKeyOnceWhereOneIsUnknown) {
  const Value table = Value(Value::Table{{"pipeline", 1}, {"data", 1}, {"xyzzy", 2}});
  const Result<layout::Parallelism> read =
      read_fields<layout::Parallelism>(table, "job.toml", "parallelism");
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text(), testing::HasSubstr("one of tensor, pipeline, data, context"));
}

}  // namespace
}  // namespace tombolo::plan
