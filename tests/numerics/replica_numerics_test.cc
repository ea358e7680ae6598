// Two stages times two pipelines against one process: the same losses within rounding, and
// replicas that hold the same bits after every step. A pipeline runs in a thread of its own, its
// stages chained by hand; the gradients are summed by Gloo.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "perform/train/torch_kernels.h"
#include "support/memory_messenger.h"
#include "support/tiny_plan.h"

namespace tombolo::train {
namespace {

using kernels::Kernels;
using kernels::NamedTensor;
using kernels::Payload;

// What one pipeline of the run saw.
struct ReplicaStory {
  std::vector<double> losses;                     // of its own microbatches, per step
  std::vector<std::vector<std::string>> digests;  // per step and stage
  std::vector<NamedTensor> checkpoint;
  int64_t evaluation_batches = 0;
  double evaluation_loss = 0;
};

// Where a pipeline starts and ends.
struct Span {
  int64_t first = 1;
  int64_t last = 30;
  std::vector<NamedTensor> checkpoint;  // empty: from the beginning
};

class PipelineReplica {
 public:
  PipelineReplica(const plan::Plan& plan, int32_t replica, MemoryHub& hub) : plan_(plan) {
    for (int32_t stage = 0; stage < static_cast<int32_t>(plan.stages.size()); ++stage) {
      const int32_t rank = plan.rank_of(stage, replica);
      auto kernels = make_torch_kernels(plan, rank);
      CHECK(kernels.has_value(), "{}", kernels.error().text());
      stages_.push_back(std::move(*kernels));
      messengers_.push_back(std::make_unique<MemoryMessenger>(hub, rank));
    }
    replica_ = replica;
  }

  ReplicaStory live(const Span& span) {
    ReplicaStory story;
    for (size_t s = 0; s < stages_.size(); ++s) {
      if (!span.checkpoint.empty()) {
        EXPECT_TRUE(stages_[s]->load(source_of(span.checkpoint)));
      }
      if (plan_.replicas() == 1) continue;
      const Status joined =
          stages_[s]->join_replicas({.ranks = plan_.replicas_of(static_cast<int32_t>(s)),
                                     .own = static_cast<size_t>(replica_),
                                     .messenger = messengers_[s].get(),
                                     .address = "127.0.0.1"});
      EXPECT_TRUE(joined) << joined.error().text();
    }
    for (int64_t i = span.first; i <= span.last; ++i) {
      story.losses.push_back(step(i));
      auto& digests = story.digests.emplace_back();
      for (auto& stage : stages_) digests.push_back(*stage->weights_digest());
    }
    evaluate(story);
    for (auto& stage : stages_) {
      auto part = stage->save();
      EXPECT_TRUE(part);
      for (NamedTensor& tensor : *part) story.checkpoint.push_back(std::move(tensor));
    }
    return story;
  }

 private:
  double step(int64_t iteration) {
    const auto stages = static_cast<int32_t>(stages_.size());
    for (auto& stage : stages_) EXPECT_TRUE(stage->begin_iteration(iteration));
    for (int64_t i = 0; i < plan_.microbatches(); ++i) {
      Payload payload;
      for (int32_t s = 0; s < stages; ++s) payload = *stages_[s]->forward(s, i, std::move(payload));
      for (int32_t s = stages; s-- > 0;) payload = *stages_[s]->backward(s, i, std::move(payload));
    }
    for (int32_t s = 0; s < stages; ++s) {
      if (plan_.replicas() > 1) {
        EXPECT_TRUE(stages_[s]->reduce_gradients(s));
      }
      EXPECT_TRUE(stages_[s]->update(s));
    }
    return stages_.back()->loss().value();
  }

  void evaluate(ReplicaStory& story) {
    story.evaluation_batches = stages_[0]->evaluation_batches();
    for (int64_t i = 0; i < story.evaluation_batches; ++i) {
      Payload payload;
      for (int32_t s = 0; s < static_cast<int32_t>(stages_.size()); ++s) {
        payload = *stages_[s]->evaluate(s, i, std::move(payload));
      }
    }
    story.evaluation_loss = stages_.back()->evaluation_loss().value();
  }

  const plan::Plan& plan_;
  int32_t replica_ = 0;
  std::vector<std::unique_ptr<Kernels>> stages_;
  std::vector<std::unique_ptr<MemoryMessenger>> messengers_;
};

std::vector<ReplicaStory> train_replicas(const plan::Plan& plan, const Span& span = {}) {
  MemoryHub hub;
  std::vector<ReplicaStory> stories(static_cast<size_t>(plan.replicas()));
  std::vector<std::thread> threads;
  for (int32_t replica = 0; replica < plan.replicas(); ++replica) {
    threads.emplace_back(
        [&, replica] { stories[replica] = PipelineReplica(plan, replica, hub).live(span); });
  }
  for (std::thread& thread : threads) thread.join();
  return stories;
}

// Over all replicas, which have as many microbatches each.
std::vector<double> mean_losses(const std::vector<ReplicaStory>& stories) {
  std::vector<double> means(stories[0].losses.size(), 0);
  for (const ReplicaStory& story : stories) {
    for (size_t i = 0; i < means.size(); ++i) {
      means[i] += story.losses[i] / static_cast<double>(stories.size());
    }
  }
  return means;
}

double mean_evaluation_loss(const std::vector<ReplicaStory>& stories) {
  double sum = 0;
  int64_t batches = 0;
  for (const ReplicaStory& story : stories) {
    sum += story.evaluation_loss * static_cast<double>(story.evaluation_batches);
    batches += story.evaluation_batches;
  }
  return sum / static_cast<double>(batches);
}

void expect_equal_replicas(const std::vector<ReplicaStory>& stories) {
  for (size_t replica = 1; replica < stories.size(); ++replica) {
    EXPECT_EQ(stories[replica].digests, stories[0].digests) << "replica " << replica;
  }
  const auto& digests = stories[0].digests;
  for (size_t i = 1; i < digests.size(); ++i) EXPECT_NE(digests[i], digests[i - 1]);
}

enum class Shape { kLlama, kGpt2 };
plan::Plan in_shape(Shape shape, plan::Plan plan) {
  return shape == Shape::kLlama ? plan : as_gpt2(std::move(plan));
}

class ReplicaNumerics : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Numerics, ReplicaNumerics, testing::Values(Shape::kLlama, Shape::kGpt2));

TEST_P(ReplicaNumerics, TwoStagesTimesTwoPipelinesEqualOneProcess) {
  const auto one = train_replicas(in_shape(GetParam(), tiny_plan(1)));
  const auto four = train_replicas(in_shape(GetParam(), tiny_plan(2, 2)));
  const auto expected = mean_losses(one), actual = mean_losses(four);
  ASSERT_EQ(actual.size(), 30u);
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(actual[i] / expected[i] - 1));
  }
  RecordProperty("largest_relative_difference", fmt::format("{:.3g}", largest));
  EXPECT_LT(largest, 1e-4);
  EXPECT_LT(expected[29], expected[0] - 1);  // it learned something
  expect_equal_replicas(four);
  EXPECT_EQ(four[0].evaluation_batches + four[1].evaluation_batches, one[0].evaluation_batches);
  EXPECT_NEAR(mean_evaluation_loss(four) / mean_evaluation_loss(one), 1, 1e-4);
}

TEST(ReplicaNumerics, TwoRunsHaveTheSameBits) {
  const plan::Plan plan = tiny_plan(1, 4);
  const auto first = train_replicas(plan, {.last = 10}),
             second = train_replicas(plan, {.last = 10});
  expect_equal_replicas(first);
  for (size_t replica = 0; replica < first.size(); ++replica) {
    EXPECT_EQ(first[replica].digests, second[replica].digests);
    EXPECT_EQ(first[replica].losses, second[replica].losses);
  }
}

// Ten steps on two stages x two pipelines, ten more on one stage x four pipelines: as one process
// would have gone on. And on the same layout: bit for bit as if nothing had happened.
TEST(ReplicaNumerics, ACheckpointContinuesOnOtherReplicas) {
  const plan::Plan plan = tiny_plan(2, 2), other = tiny_plan(1, 4);
  const auto whole = train_replicas(plan, {.last = 20});
  const auto begun = train_replicas(plan, {.last = 10});
  const Span rest{.first = 11, .last = 20, .checkpoint = begun[1].checkpoint};
  const auto resumed = train_replicas(plan, rest), moved = train_replicas(other, rest);
  expect_equal_replicas(moved);
  const auto expected = mean_losses(whole), same = mean_losses(resumed), near = mean_losses(moved);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(same[i], expected[10 + i]);
    EXPECT_NEAR(near[i] / expected[10 + i], 1, 1e-4);
  }
}

TEST(ReplicaNumerics, KernelsSayWhatTheyMiss) {
  const plan::Plan plan = tiny_plan(1, 2);
  auto kernels = std::move(*make_torch_kernels(plan, 1));
  ASSERT_TRUE(kernels->begin_iteration(1));
  EXPECT_THAT(kernels->reduce_gradients(0).error().text(),
              testing::HasSubstr("has no gradient: sum before any backward pass"));
  for (int64_t i = 0; i < plan.microbatches(); ++i) {
    ASSERT_TRUE(kernels->forward(0, i, {}));
    ASSERT_TRUE(kernels->backward(0, i, {}));
  }
  EXPECT_THAT(kernels->reduce_gradients(0).error().text(),
              testing::HasSubstr("stage 0 has not joined its replicas"));
}

}  // namespace
}  // namespace tombolo::train
