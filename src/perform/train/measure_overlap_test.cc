#include "perform/train/measure_overlap.h"

#include <gmock/gmock.h>

#include "perform/train/layer_steps.h"
#include "support/test_plan.h"

namespace tombolo::train {
namespace {

plan::Plan overlap_plan(bool sequence_parallel) {
  plan::Plan plan = make_test_plan({.stages = 1, .microbatches = 2});
  plan.model = {.name = "tiny",
                .layers = 2,
                .hidden = 32,
                .heads = 4,
                .kv_heads = 2,
                .ffn = 48,
                .vocabulary = 16,
                .sequence = 16};
  plan.training.micro_batch = 2;
  plan.training.precision = plan::Precision::kFp32;
  plan.parallelism.tensor = 2;
  plan.parallelism.sequence_parallel = sequence_parallel;
  return plan;
}

TEST(MeasureOverlap, EveryOperatorAloneAndEachClassBesideCommunication) {
  for (const bool rows : {false, true}) {
    const auto samples = measure_overlap(overlap_plan(rows), 0_s, 3);
    ASSERT_TRUE(samples) << samples.error().text();
    std::vector<std::string> names, measured, pairs;
    const Meeting meeting = rows ? Meeting::kRows : Meeting::kSums;
    for (const auto& steps : {forward_steps({meeting}), backward_steps({meeting})})
      for (const LayerStep& step : steps) names.push_back(step.name);
    for (const plan::OperatorSamples& each : samples->operators) {
      measured.push_back(each.name);
      EXPECT_EQ(each.alone_ns.size(), 3U) << each.name;
      EXPECT_EQ(each.again_ns.size(), 3U) << each.name;
    }
    EXPECT_EQ(measured, names);
    for (const plan::PairSamples& each : samples->pairs) {
      pairs.push_back(each.first + " " + each.second);
      EXPECT_EQ(each.first_ns.size(), 3U) << each.first;
    }
    EXPECT_EQ(
        pairs,
        rows
            ? (std::vector<std::string>{"FA bRS2", "bFA RS1", "FC1 bRS1", "bLN1 RS2", "RS1 bRS2"})
            : (std::vector<std::string>{"FA bAR2", "bFA AR1", "FC1 bAR1", "bLN1 AR2", "AR1 bAR2"}));
    // What a worker prints is what the command reads.
    const auto read = read_fields<plan::OverlapSamples>(write_fields(*samples), "samples");
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(*read, *samples);
  }
}

TEST(MeasureOverlap, NamesWhatHasNoOperators) {
  plan::Plan plan = overlap_plan(false);
  plan.model.experts = model::Experts{.count = 4, .per_token = 2, .ffn = 12};
  EXPECT_THAT(measure_overlap(plan, 0_s, 1).error().text(), testing::HasSubstr("layer of experts"));
}

}  // namespace
}  // namespace tombolo::train
