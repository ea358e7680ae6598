// Pipelines that read shares of their own against one process that reads the same samples, and a
// run that was resumed against one that was not.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "perform/data/token_writer.h"
#include "perform/stage/dataset_fingerprint.h"
#include "story.h"
#include "support/folder_test.h"

namespace tombolo::train {
namespace {

using testing::HasSubstr;

constexpr int64_t kSequence = 32, kSamples = 4;  // of a pipeline in an iteration

class ShareNumerics : public FolderTest {
 protected:
  std::string token_file(const std::string& name, const std::string& text) const {
    auto writer =
        data::TokenWriter::create(at(name), plan::TokenFormat::kMegatron, plan::TokenType::kUint8);
    const std::vector<int64_t> ids(text.begin(), text.end());
    EXPECT_TRUE(writer && writer->add(ids) && writer->finish());
    return at(name + ".bin");
  }

  // What an iteration reads of a share with so many iterations in an epoch.
  std::string part(const std::string& text, int64_t iteration, int64_t epoch) const {
    const int64_t length = kSamples * kSequence, begin = (iteration - 1) % epoch * length;
    return text.substr(static_cast<size_t>(begin), static_cast<size_t>(length + 1));
  }

  const std::string letters_ = made_up_text(3 * kSamples * kSequence + 1);
  const std::string others_ = made_up_text(20'000).substr(9'000, 5 * kSamples * kSequence + 1);
};

// Epochs of three and five iterations; two datacenters with one end each of every pipeline.
TEST_F(ShareNumerics, EqualOneProcessThatReadsTheSameSamples) {
  plan::Plan shared = tiny_plan({.pipeline = 2, .data = 2, .over_a_wan = true});
  shared.data = plan::Data{
      .share = {{.tokens = {token_file("others", others_)},
                 .datacenters = {"here", "there"},
                 .pipelines = {1}},
                {.tokens = {token_file("letters", letters_)}, .datacenters = {}, .pipelines = {0}}},
      .shuffle = false,
      .evaluation_fraction = 0};
  plan::Plan one = tiny_plan(1);
  one.data = plan::Data{.shuffle = false, .evaluation_fraction = 0};
  for (int64_t i = 1; i <= one.run.steps; ++i) {
    one.data->tokens.push_back(token_file(fmt::format("a{}", i), part(letters_, i, 3)));
    one.data->tokens.push_back(token_file(fmt::format("b{}", i), part(others_, i, 5)));
  }
  const Story expected = train(one), actual = train(shared);
  ASSERT_EQ(actual.losses.size(), 30u);
  double largest = 0;
  for (const auto& [step, loss] : expected.losses) {
    largest = std::max(largest, std::abs(actual.losses.at(step) / loss - 1));
  }
  RecordProperty("largest_relative_difference", fmt::format("{:.3g}", largest));
  EXPECT_LT(largest, 1e-4);
  EXPECT_LT(expected.losses.at(30), expected.losses.at(1) - 1);
}

// Four stages, of which those in the middle read nothing and still pass on what is held out.
TEST_F(ShareNumerics, ResumeBitForBitAndEvaluateEachShare) {
  plan::Plan plan = tiny_plan(4, 2);
  plan.data = plan::Data{
      .share = {{.tokens = {token_file("letters", letters_)}, .datacenters = {}, .pipelines = {0}},
                {.tokens = {token_file("others", others_)},
                 .datacenters = {"here"},
                 .pipelines = {}}},
      .evaluation_fraction = 0.25};
  const Story whole = train(with_steps(plan, 12)), again = train(with_steps(plan, 12));
  EXPECT_EQ(again.digests, whole.digests);
  EXPECT_EQ(again.losses, whole.losses);
  EXPECT_TRUE(whole.evaluation);
  plan::Plan rest = with_steps(plan, 12);
  rest.optimizer.rule = plan::RateRule::kConstant;  // which does not ask for the number of steps
  plan::Plan begun = with_steps(rest, 7);
  const Story before = train(begun), after = train(rest, {before.checkpoint, 8}),
              through = train(rest);
  EXPECT_EQ(after.digests, through.digests);
  for (int64_t step = 8; step <= 12; ++step) {
    EXPECT_EQ(after.losses.at(step), through.losses.at(step)) << step;
  }
}

TEST_F(ShareNumerics, OnlyTheEndsOfAPipelineNeedItsFiles) {
  plan::Plan plan = tiny_plan(3, 2);
  plan.data = plan::Data{
      .share = {{.tokens = {at("elsewhere.bin")}, .datacenters = {}, .pipelines = {0}},
                {.tokens = {token_file("letters", letters_)}, .datacenters = {}, .pipelines = {1}}},
      .evaluation_fraction = 0};
  for (const int32_t rank : {0, 4}) {  // stages 0 and 2 of pipeline 0
    const auto made = make_torch_kernels(plan, rank);
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().text(), HasSubstr("elsewhere.bin: cannot open it for reading"));
  }
  for (const int32_t rank : {1, 2, 3, 5}) EXPECT_TRUE(make_torch_kernels(plan, rank)) << rank;
}

// As two hosts may have it: another file of that name. Ranks 0 and 1 are the ends of a pipeline, or
// two replicas.
TEST_F(ShareNumerics, CopiesThatDifferEndTheRun) {
  std::string backwards = letters_;
  std::ranges::reverse(backwards);
  const auto compared = [&](plan::Plan plan, const plan::Data& of_0, const plan::Data& of_1) {
    MemoryHub hub;
    Status last;
    for (const auto& [rank, data] : {std::pair(0, of_0), {1, of_1}}) {
      plan.data = data;
      const auto kernels = std::move(*make_torch_kernels(plan, rank));
      MemoryMessenger messenger(hub, rank);
      last = stage::agree_on_data(plan, rank, 1, *kernels, messenger);
    }
    if (last) return std::string();
    EXPECT_EQ(last.error().exit_code(), 2);
    return last.error().text();
  };
  const plan::Data tokens{.tokens = {token_file("letters", letters_)}, .evaluation_fraction = 0.25};
  const plan::Data other_tokens{.tokens = {token_file("backwards", backwards)},
                                .evaluation_fraction = 0.25};
  ASSERT_TRUE(write_file(at("letters.txt"), letters_) &&
              write_file(at("backwards.txt"), backwards));
  const plan::Data text{.text = at("letters.txt"), .evaluation_fraction = 0};
  const plan::Data other_text{.text = at("backwards.txt"), .evaluation_fraction = 0};
  const plan::Plan ends = tiny_plan({.pipeline = 2, .over_a_wan = true});
  const plan::Plan replicas = tiny_plan({.data = 2, .apart = true});
  for (const auto& [one, other] : {std::pair(tokens, other_tokens), {text, other_text}}) {
    EXPECT_EQ(compared(ends, one, one), "");
    EXPECT_THAT(compared(ends, one, other),
                HasSubstr("rank 0 in here, which reads inputs, and on rank 1 in there, which reads "
                          "targets, differ"));
    EXPECT_EQ(compared(replicas, one, one), "");
    EXPECT_THAT(compared(replicas, one, other),
                HasSubstr("rank 0 in here (replica 0) and on rank 1 in there (replica 1) differ"));
  }
}

}  // namespace
}  // namespace tombolo::train
