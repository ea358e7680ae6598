#include "perform/kernels/messenger.h"

#include <gtest/gtest.h>

#include "support/test_plan.h"

namespace tombolo::kernels {
namespace {

// In the order in which they go: the launcher, then iteration 3 and what it consists of, then 4.
TEST(Urgency, ThePipelineGoesBeforeSumsAndSumsBeforeEvaluation) {
  const std::vector<link::Tag> order = {
      {0, 0},                      // the launcher
      {3, 199'999},                // the gradient of microbatch 99,999
      {3, replica_tensor(7) + 5},  // a step of the ring
      {3, kEvaluationTensor + 2},  // a held-out batch
      {4, 0},
  };
  for (size_t i = 1; i < order.size(); ++i)
    EXPECT_LT(urgency_of(order[i - 1]), urgency_of(order[i])) << link::text(order[i]);
}

// The schedule says who goes first, and it hands them over in that order.
TEST(Urgency, AllOfAPipelinesMessagesAreEqual) {
  EXPECT_EQ(urgency_of({3, 6}), urgency_of({3, 7}));
  EXPECT_EQ(urgency_of({3, 6}), urgency_of({3, 5 * kTensorsPerBoundary}));
}

// Group 0 of stage 2 is needed before its group 1, and both before stage 3.
TEST(Urgency, WhatTheNextForwardNeedsFirstGoesFirst) {
  const std::vector<link::Tag> order = {
      {3, 7},                               // a microbatch
      {3, replica_tensor(7)},               // a sum without groups
      {3, group_tensor(2, 0, 4)},           // and with
      {3, group_tensor(2, 1, 0)},           //
      {3, group_tensor(3, 0, 0)},           //
      {3, group_tensor(65'535, 4'095, 0)},  //
      {3, kEvaluationTensor},               // a held-out batch
      {4, group_tensor(0, 0, 0)},           // the next iteration
  };
  for (size_t i = 1; i < order.size(); ++i)
    EXPECT_LT(urgency_of(order[i - 1]), urgency_of(order[i])) << link::text(order[i]);
  EXPECT_EQ(urgency_of(order[2]), urgency_of({3, group_tensor(2, 0, 0)}));
  EXPECT_STREQ(class_of(urgency_of(order[0])), "pipeline");
  EXPECT_STREQ(class_of(urgency_of(order[1])), "gradients");
  EXPECT_STREQ(class_of(urgency_of(order[5])), "gradients");
  EXPECT_STREQ(class_of(urgency_of(order[6])), "evaluation");
}

// With order = "first-come" groups are equal, and go in the order in which they were handed over.
TEST(Urgency, WhatComesFirstMayGoFirst) {
  const auto at = [](link::Tag tag) { return urgency_of(tag, plan::ExchangeOrder::kFirstCome); };
  EXPECT_EQ(at({3, group_tensor(2, 0, 4)}), at({3, group_tensor(2, 1, 0)}));
  EXPECT_EQ(at({3, group_tensor(2, 0, 4)}), at({3, group_tensor(65'535, 4'095, 0)}));
  EXPECT_LT(at({3, replica_tensor(7)}), at({3, group_tensor(0, 0, 0)}));
  EXPECT_LT(at({3, group_tensor(2, 1, 0)}), at({3, kEvaluationTensor}));
  EXPECT_LT(at({3, group_tensor(2, 1, 0)}), at({4, group_tensor(0, 0, 0)}));
  EXPECT_EQ(at({3, 7}), urgency_of({3, 7}));
}

// Of stages 4 and 5 either end numbers a message alike; stages 0 and 1 of the same ranks otherwise.
TEST(PipelineTensor, IsTheSameForSenderAndReceiver) {
  const auto tensor = [](const char* text) { return pipeline_tensor(*action::parse_action(text)); };
  EXPECT_EQ(tensor("4SEND_F2"), 4 * kTensorsPerBoundary + 4);
  EXPECT_EQ(tensor("5RECV_F2"), tensor("4SEND_F2"));
  EXPECT_EQ(tensor("5SEND_B2"), tensor("4SEND_F2") + 1);
  EXPECT_EQ(tensor("4RECV_B2"), tensor("5SEND_B2"));
  EXPECT_EQ(tensor("0SEND_F2"), 4u);
}

TEST(Urgency, FarNumbersStayInTheirPlace) {
  EXPECT_LT(urgency_of({3, uint64_t{1} << 39}), urgency_of({3, kReplicaTensor}));
  EXPECT_LE(urgency_of({uint64_t{1} << 33, 0}), urgency_of({uint64_t{1} << 34, 0}));
}

TEST(ShapeBetween, HasTheConnectionsOfTheWan) {
  plan::Plan plan = make_test_plan({.stages = 2, .replicas = 2});
  plan.cluster.wan[0].connections = 8;
  const auto wan = shape_between(plan, plan.rank_of(0, 0), plan.rank_of(1, 0));
  EXPECT_EQ(wan.connections, 8u);
  EXPECT_FALSE(wan.slow_network);
  const auto island = shape_between(plan, plan.rank_of(0, 0), plan.rank_of(1, 0), true);
  EXPECT_EQ(island.connections, 8u);
  EXPECT_TRUE(island.slow_network && !island.rate && island.delay == SimDuration{});
  EXPECT_EQ(shape_between(plan, plan.rank_of(0, 0), plan.rank_of(0, 1)).connections, 1u);
  plan.cluster.wan[0].connections = 64;  // their rate counts, on loopback
  EXPECT_EQ(shape_between(plan, plan.rank_of(0, 0), plan.rank_of(1, 0)).connections, 16u);
}

}  // namespace
}  // namespace tombolo::kernels
