#include "perform/train/samples.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "perform/data/token_writer.h"
#include "support/tiny_plan.h"

namespace tombolo::train {
namespace {

using testing::HasSubstr;

// The text of tiny_plan as ids, in a file of its own.
std::string test_token_file() {
  const std::string prefix = fmt::format("{}tombolo_samples_{}", testing::TempDir(), getpid());
  auto writer =
      data::TokenWriter::create(prefix, plan::TokenFormat::kMegatron, plan::TokenType::kUint16);
  std::vector<int64_t> ids;
  for (const char letter : made_up_text(20'000)) ids.push_back(letter);
  CHECK(writer && writer->add(ids) && writer->finish(), "cannot write {}", prefix);
  return prefix + ".bin";
}

std::vector<int64_t> training(const Samples& samples, int64_t iteration, int64_t sample) {
  std::vector<int64_t> out(33);
  const Status read = samples.training(iteration, sample, out);
  EXPECT_TRUE(read) << (read ? "" : read.error().text());
  return out;
}

// Recorded answers and runs that resume depend on which bytes are drawn.
TEST(Samples, OfATextAreThoseOfByteData) {
  const plan::Plan plan = tiny_plan(1);
  const auto samples = Samples::open(plan);
  const auto bytes = ByteData::open(plan);
  ASSERT_TRUE(samples && bytes);
  for (int64_t sample = 0; sample < 8; ++sample) {
    const auto window = bytes->training_window(3, sample);
    EXPECT_EQ(training(*samples, 3, sample), std::vector<int64_t>(window.begin(), window.end()));
  }
  ASSERT_EQ(samples->evaluation_windows(), bytes->evaluation_windows());
  std::vector<int64_t> out(33);
  ASSERT_TRUE(samples->evaluation(1, out));
  const auto window = bytes->evaluation_window(1);
  EXPECT_EQ(out, std::vector<int64_t>(window.begin(), window.end()));
}

TEST(Samples, OfTokensAreTheSameForEverySplitAndNumberOfReplicas) {
  const auto open = [&](plan::Plan plan) {
    plan.data = plan::Data{.tokens = {test_token_file()}};
    auto samples = Samples::open(plan);
    EXPECT_TRUE(samples) << (samples ? "" : samples.error().text());
    return std::move(*samples);
  };
  const Samples whole = open(tiny_plan(1)), split = open(tiny_plan(2)),
                pairs = open(tiny_plan(2, 2));
  EXPECT_GT(whole.evaluation_windows(), 0);
  for (int64_t sample = 0; sample < 8; ++sample) {
    const auto window = training(whole, 7, sample);
    EXPECT_EQ(training(split, 7, sample), window);
    EXPECT_EQ(training(pairs, 7, sample), window);
  }
}

TEST(Samples, OfASharePassToItsOwnReaders) {
  plan::Plan plan = tiny_plan(1, 4);
  const std::vector<std::string> tokens = {test_token_file()};
  plan.data = plan::Data{.share = {{.tokens = tokens, .datacenters = {}, .pipelines = {0, 1, 3}},
                                   {.tokens = tokens, .datacenters = {"here"}, .pipelines = {}}}};
  const auto of_three = Samples::open(plan, 3), of_one = Samples::open(plan, 2);
  ASSERT_TRUE(of_three && of_one);
  EXPECT_EQ(of_three->reader(), 2);
  EXPECT_EQ(of_three->readers(), 3);
  EXPECT_EQ(of_one->reader(), 0);
  EXPECT_EQ(of_one->readers(), 1);
  // Of a text every pipeline has its part.
  const auto text = Samples::open(tiny_plan(1, 4), 3);
  ASSERT_TRUE(text);
  EXPECT_EQ(text->reader(), 3);
  EXPECT_EQ(text->readers(), 4);
  EXPECT_EQ(text->files()->at(0).path, test_text_file());
  EXPECT_NE(text->files()->at(0).content, of_one->files()->at(0).content);
}

TEST(Samples, AnIdThatTheModelLacksIsRefused) {
  plan::Plan plan = tiny_plan(1);
  plan.data = plan::Data{.tokens = {test_token_file()}, .shuffle = false};
  plan.model.vocabulary = 100;  // letters go up to 119
  const auto samples = Samples::open(plan);
  ASSERT_TRUE(samples);
  std::vector<int64_t> out(33);
  const Status read = samples->training(1, 0, out);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().text(), HasSubstr("model.vocabulary is 100"));
  EXPECT_THAT(read.error().text(), HasSubstr("while reading sample 0 of iteration 1"));
}

}  // namespace
}  // namespace tombolo::train
