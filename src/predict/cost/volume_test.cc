#include "predict/cost/volume.h"

#include <gtest/gtest.h>

namespace tombolo::cost {
namespace {

model::Model small_mixture() {
  model::Model m{.layers = 2, .hidden = 8, .heads = 4, .kv_heads = 2, .ffn = 16};
  m.vocabulary = 10;
  m.sequence = 6;
  m.experts = model::Experts{.count = 4, .per_token = 2, .ffn = 16};
  return m;
}

// 2 sequences of 6 tokens over 3 context ranks: 4 tokens a rank, 8 numbers of 2 bytes each.
TEST(Volume, OfAMicrobatchByHand) {
  Configuration c;
  c.micro_batch = 2;
  c.context = 3;
  c.tensor = 4;
  MicrobatchVolume moved = microbatch_volume(small_mixture(), c, 2);
  EXPECT_EQ(moved.hidden, 4 * 8 * 2);
  // Keys and values of 2 heads of 2 numbers, of which each of 4 tensor ranks has a whole one.
  EXPECT_EQ(moved.keys_values, 12 * 2 * 2 * 2);
  EXPECT_EQ(moved.copies, 2 * moved.hidden);
  c.sequence_parallel = true;  // a rank has a fourth of the tokens
  moved = microbatch_volume(small_mixture(), c, 2);
  EXPECT_EQ(moved.copies, 2 * moved.hidden / 4);
}

TEST(Volume, ExpertsAreHeldByFewer) {
  const model::Model m = small_mixture();
  const model::Slice all{.layers = 2};
  Configuration c;
  const HeldParameters whole = held_parameters(m, c, all);
  EXPECT_EQ(whole.total(), static_cast<double>(model::parameters(m, all)));
  EXPECT_EQ(whole.experts, static_cast<double>(model::expert_parameters(m, all)));
  c.tensor = 2;
  c.expert = 4;
  EXPECT_EQ(held_parameters(m, c, all).dense, whole.dense / 2);
  EXPECT_EQ(held_parameters(m, c, all).experts, whole.experts / 8);
}

TEST(Volume, CallersKeepTheirPromises) {
  Configuration c;
  c.context = 0;
  EXPECT_DEATH((void)microbatch_volume(small_mixture(), c, 2), "1 x 0 devices");
}

}  // namespace
}  // namespace tombolo::cost
