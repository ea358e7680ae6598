#include "perform/update/outer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace tombolo::update {
namespace {

using ::testing::FloatEq;

// By hand: b = 0.9 * 0 + 2, anchor = 10 - 0.5 (2 + 0.9 * 2); then b = 0.9 * 2 - 1.
TEST(OuterStep, IsNesterovsOnTheAnchor) {
  std::array<float, 1> anchor{10}, momentum{0}, parameters{8};
  const OuterState state{anchor, momentum, {}};
  outer_step({.rate = 0.5, .momentum = 0.9}, std::array<float, 1>{2}, state, parameters);
  EXPECT_THAT(anchor[0], FloatEq(8.1f));
  EXPECT_EQ(parameters[0], anchor[0]);
  outer_step({.rate = 0.5, .momentum = 0.9}, std::array<float, 1>{-1}, state, parameters);
  EXPECT_THAT(momentum[0], FloatEq(0.8f));
  EXPECT_THAT(anchor[0], FloatEq(8.1f - 0.5f * (-1 + 0.9f * 0.8f)));
}

TEST(OuterStep, BlendsWhatADatacenterHasLearnedMeanwhile) {
  std::array<float, 1> anchor{10}, parameters{6};
  outer_step({.rate = 1, .momentum = 0, .blend = 0.25}, std::array<float, 1>{2}, {anchor, {}, {}},
             parameters);
  EXPECT_EQ(anchor[0], 8);
  EXPECT_EQ(parameters[0], 7.5f);
}

}  // namespace
}  // namespace tombolo::update
