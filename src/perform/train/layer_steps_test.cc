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
  EXPECT_EQ(told(forward_steps({Meeting::kRows})),
            "LN1; AG1<LN1 link; QKV<AG1; FA<QKV; PROJ<FA; RS1<PROJ link; BDA1<RS1; LN2<BDA1; "
            "AG2<LN2 link; FC1<AG2; ACT<FC1; FC2<ACT; RS2<FC2 link; BDA2<RS2; ");
  EXPECT_EQ(told(backward_steps({Meeting::kRows})),
            "bBDA2; bAG2<bBDA2 link; FC2d<bAG2; FC2w<bAG2; bACT<FC2d; FC1d<bACT; FC1w<bACT; "
            "bRS2<FC1d async; bLN2<bRS2; bBDA1<bLN2; bAG1<bBDA1 link; PROJd<bAG1; PROJw<bAG1; "
            "bFA<PROJd; QKVd<bFA; QKVw<bFA; bRS1<QKVd async; bLN1<bRS1; ");
}

TEST(LayerSteps, GatherAgainForGradientsOfWeights) {
  const std::string steps = told(backward_steps({Meeting::kRows, true}));
  EXPECT_THAT(steps, testing::HasSubstr("gAG2<bBDA2 async; FC1d<bACT; FC1w<bACT<gAG2; "));
  EXPECT_THAT(steps, testing::HasSubstr("gAG1<bBDA2 async; QKVd<bFA; QKVw<bFA<gAG1; "));
  EXPECT_EQ(backward_steps({Meeting::kRows, true}).size(), 20u);
}

TEST(LayerSteps, SumWithoutSequenceParallelism) {
  EXPECT_EQ(forward_steps({Meeting::kNone}).size(), 10u);
  EXPECT_EQ(forward_steps({Meeting::kSums}).size(), 12u);
  EXPECT_EQ(backward_steps({Meeting::kNone, true}).size(), 14u);
  EXPECT_EQ(backward_steps({Meeting::kSums, true}).size(), 16u);
  EXPECT_THAT(told(backward_steps({Meeting::kSums})),
              testing::HasSubstr("bAR1<QKVd async; bLN1<bAR1"));
}

// The expert that every token visits is parallel to the others, from the gathered tokens to the
// sum.
TEST(LayerSteps, OfAMixture) {
  const LayerForm form{
      .meeting = Meeting::kRows, .experts = true, .exchange = true, .shared = true};
  EXPECT_THAT(told(forward_steps(form)),
              testing::HasSubstr("AG2<LN2 link; ROUTER<AG2; PERMUTE<ROUTER; A2A1<PERMUTE link; "
                                 "EFC1<A2A1; EACT<EFC1; EFC2<EACT; A2A2<EFC2 link; UNPERMUTE<A2A2; "
                                 "SFC1<AG2; SACT<SFC1; SFC2<SACT; RS2<SFC2<UNPERMUTE link; "));
  EXPECT_THAT(
      told(backward_steps(form)),
      testing::HasSubstr("bAG2<bBDA2 link; bUNPERMUTE<bAG2; bA2A2<bUNPERMUTE link; EFC2d<bA2A2; "
                         "EFC2w<bA2A2; bEACT<EFC2d; EFC1d<bEACT; EFC1w<bEACT; bA2A1<EFC1d link; "
                         "bPERMUTE<bA2A1; ROUTERd<bPERMUTE; ROUTERw<bPERMUTE; SFC2d<bAG2; "
                         "SFC2w<bAG2; bSACT<SFC2d; SFC1d<bSACT; SFC1w<bSACT; "
                         "bRS2<SFC1d<ROUTERd async; bLN2<bRS2; "));
  for (const LayerStep& step : forward_steps(form))
    EXPECT_EQ(step.across, step.name.starts_with("A2A")) << step.name;
}

// A norm reads what comes before it, and the gate of an expert what the expert has made.
TEST(LayerSteps, ComputeASecondTimeWhatIsRead) {
  LayerForm form{.meeting = Meeting::kRows, .again = true};
  EXPECT_THAT(told(backward_steps(form)), testing::HasSubstr("rACT<rFC1; bBDA2<rACT; "));
  EXPECT_EQ(backward_steps(form).size(), 18u + 11u);
  form.norm_after = true;
  EXPECT_EQ(backward_steps(form).size(), 18u + 14u);
  form = {.experts = true, .shared = true, .again = true};
  EXPECT_THAT(told(backward_steps(form)),
              testing::HasSubstr("rSACT<rSFC1; bBDA2<rSACT<rUNPERMUTE; "));
  form.shared_gate = true;
  EXPECT_THAT(told(backward_steps(form)),
              testing::HasSubstr("rSFC2<rSACT; bBDA2<rSFC2<rUNPERMUTE; "));
}

}  // namespace
}  // namespace tombolo::train
