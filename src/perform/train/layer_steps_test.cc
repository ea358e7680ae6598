#include "perform/train/layer_steps.h"

#include <gmock/gmock.h>

namespace tombolo::train {
namespace {

std::string told(const std::vector<LayerStep>& steps) {
  std::string out;
  for (const LayerStep& step : steps) {
    out += step.name;
    for (const size_t before : step.after) out += "<" + steps[before].name;
    out += step.communicates ? step.async ? " async; " : " link; " : "; ";
  }
  return out;
}

// The 14 and 18 operators of the paper.
TEST(LayerSteps, AreThoseOfThePaper) {
  EXPECT_EQ(told(forward_steps(Meeting::kRows)),
            "LN1; AG1<LN1 link; QKV<AG1; FA<QKV; PROJ<FA; RS1<PROJ link; BDA1<RS1; LN2<BDA1; "
            "AG2<LN2 link; FC1<AG2; ACT<FC1; FC2<ACT; RS2<FC2 link; BDA2<RS2; ");
  EXPECT_EQ(told(backward_steps(Meeting::kRows)),
            "bBDA2; bAG2<bBDA2 link; FC2d<bAG2; FC2w<bAG2; bACT<FC2d; FC1d<bACT; FC1w<bACT; "
            "bRS2<FC1d async; bLN2<bRS2; bBDA1<bLN2; bAG1<bBDA1 link; PROJd<bAG1; PROJw<bAG1; "
            "bFA<PROJd; QKVd<bFA; QKVw<bFA; bRS1<QKVd async; bLN1<bRS1; ");
}

TEST(LayerSteps, GatherAgainForGradientsOfWeights) {
  const std::string steps = told(backward_steps(Meeting::kRows, true));
  EXPECT_THAT(steps, testing::HasSubstr("gAG2<bBDA2 async; FC1d<bACT; FC1w<bACT<gAG2; "));
  EXPECT_THAT(steps, testing::HasSubstr("gAG1<bBDA2 async; QKVd<bFA; QKVw<bFA<gAG1; "));
  EXPECT_EQ(backward_steps(Meeting::kRows, true).size(), 20u);
}

TEST(LayerSteps, SumWithoutSequenceParallelism) {
  EXPECT_EQ(forward_steps(Meeting::kNone).size(), 10u);
  EXPECT_EQ(forward_steps(Meeting::kSums).size(), 12u);
  EXPECT_EQ(backward_steps(Meeting::kNone, true).size(), 14u);
  EXPECT_EQ(backward_steps(Meeting::kSums, true).size(), 16u);
  EXPECT_THAT(told(backward_steps(Meeting::kSums)),
              testing::HasSubstr("bAR1<QKVd async; bLN1<bAR1"));
}

}  // namespace
}  // namespace tombolo::train
