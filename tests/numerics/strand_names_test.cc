// Operators that are performed are those that `tombolo strand` plans: names, links, and what waits for what.
#include <gtest/gtest.h>

#include "perform/train/layer_steps.h"
#include "predict/strand/layer_strands.h"

namespace tombolo::train {
namespace {

strand::LayerStrands planned(const LayerForm& form) {
  cost::LayerOperators times{.all_again = form.again};
  if (form.experts) times.experts = 2;
  if (form.shared) times.shared = {.up = 1, .down = 1, .passes = 1};
  return strand::layer_strands({.tensor = form.meeting != Meeting::kNone,
                                .sequence_parallel = form.meeting == Meeting::kRows,
                                .exchange = form.exchange,
                                .gather_again = form.gather_again,
                                .as_trained = true,
                                .norm_after = form.norm_after,
                                .shared_gate = form.shared_gate,
                                .tensor_stream = strand::Stream::kLocal,
                                .expert_stream = strand::Stream::kCross},
                               times);
}

void expect_same(const strand::Dag& planned, const std::vector<LayerStep>& performed) {
  ASSERT_EQ(planned.size(), performed.size());
  for (size_t i = 0; i < performed.size(); ++i) {
    const LayerStep& step = performed[i];
    strand::OperatorSet after = 0;
    for (const size_t number : step.after) after |= strand::only(number);
    EXPECT_EQ(planned[i].name, step.name);
    EXPECT_EQ(planned[i].after, after) << step.name;
    EXPECT_EQ(planned[i].async, step.async) << step.name;
    EXPECT_EQ(planned[i].stream, !step.communicates ? strand::Stream::kCompute
                                 : step.across      ? strand::Stream::kCross
                                                    : strand::Stream::kLocal)
        << step.name;
  }
}

void expect_planned(LayerForm form) {
  for (const Meeting meeting : {Meeting::kNone, Meeting::kSums, Meeting::kRows}) {
    for (const bool gather_again : {false, true}) {
      for (const bool norm_after : {false, true}) {
        for (const bool again : {false, true}) {
          form.meeting = meeting;
          form.gather_again = gather_again;
          form.norm_after = norm_after;
          form.again = again;
          const strand::LayerStrands layer = planned(form);
          expect_same(layer.forward, forward_steps(form));
          expect_same(layer.backward, backward_steps(form));
        }
      }
    }
  }
}

TEST(StrandNames, PlannedOperatorsArePerformed) { expect_planned({}); }

TEST(StrandNames, OfExpertsToo) {
  for (const bool exchange : {false, true}) {
    expect_planned({.experts = true, .exchange = exchange});
    for (const bool gate : {false, true})
      expect_planned({.experts = true, .exchange = exchange, .shared = true, .shared_gate = gate});
  }
}

// What Megatron-LM does, which no trainer of ours performs, is the same where nobody meets but experts.
TEST(StrandNames, OfOtherStacksWithoutTensorGroups) {
  const cost::LayerOperators times{.experts = 2, .shared = {.up = 1, .down = 1, .passes = 1}};
  const strand::LayerStrands layer =
      strand::layer_strands({.exchange = true, .expert_stream = strand::Stream::kCross}, times);
  const LayerForm form{.experts = true, .exchange = true, .shared = true};
  expect_same(layer.forward, forward_steps(form));
  expect_same(layer.backward, backward_steps(form));
}

}  // namespace
}  // namespace tombolo::train
