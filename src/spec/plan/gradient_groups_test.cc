#include "spec/plan/gradient_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace tombolo::plan {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

constexpr Bytes kNoFloor{0};

// A layer has 2 norms of 2 x 8 numbers, 4 matrices of 8 x 8 with 8 biases each, and an MLP of 8 x
// 32 + 32 and 32 x 8 + 8: 32 + 288 + 288 + 264 = 872. Embedding: 100 x 8 + 16 x 8 positions = 928.
model::Model tiny(bool tied) {
  model::Model m;
  m.layers = 4;
  m.hidden = 8;
  m.heads = m.kv_heads = 2;
  m.ffn = 32;
  m.vocabulary = 100;
  m.sequence = 16;
  m.norm = model::Norm::kLayer;
  m.activation = model::Activation::kGelu;
  m.positions = model::Positions::kLearned;
  m.bias = true;
  m.tied_embeddings = tied;
  return m;
}

Bytes whole(const model::Model& m, const model::Slice& slice) {
  return Bytes{4 * real(model::parameters(m, slice))};
}

TEST(GradientGroups, ByHand) {
  const model::Model m = tiny(false);
  const model::Slice stage{0, 2, true, false};
  const auto groups = gradient_groups(m, stage, whole(m, stage), 4, kNoFloor);
  // The embedding takes no time; each layer takes half of a pass.
  EXPECT_THAT(groups, ElementsAre(GradientGroup{{0, 0, true, false}, Bytes{4 * 928}, 0, 1},
                                  GradientGroup{{0, 1, false, false}, Bytes{4 * 872}, 0, 1},
                                  GradientGroup{{1, 1, false, false}, Bytes{4 * 872}, 0.5, 0.5}));
}

// A layer's products are 2 x 16 x (4 x 64 + 2 x 256) + 4 x 16^2 x 8 = 24576 + 8192 = 32768 FLOPs,
// the head's 2 x 16 x 8 x 100 = 25600.
TEST(GradientGroups, AHeadTakesItsTime) {
  const model::Model m = tiny(false);
  const model::Slice stage{3, 1, false, true};
  const auto groups = gradient_groups(m, stage, whole(m, stage), 4, kNoFloor);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[1].bytes, Bytes{4 * (16 + 800)});
  EXPECT_THAT(groups[1].needed_at, DoubleEq(32768.0 / (32768 + 25600)));
  EXPECT_THAT(groups[1].complete_at, DoubleEq(25600.0 / (32768 + 25600)));
}

// The matrix counts once, where the embedding is; without it, a copy counts with the head.
TEST(GradientGroups, ATiedHeadLeavesTheNormAlone) {
  const model::Model m = tiny(true);
  const model::Slice all{0, 4, true, true}, last{2, 2, false, true};
  EXPECT_EQ(gradient_groups(m, all, whole(m, all), 4, kNoFloor).back().bytes, Bytes{4 * 16});
  EXPECT_EQ(gradient_groups(m, last, whole(m, last), 4, kNoFloor).back().bytes, Bytes{4 * 816});
}

TEST(GradientGroups, SmallNeighboursAreJoined) {
  const model::Model m = tiny(false);
  const model::Slice all{0, 4, true, true};
  const auto groups = gradient_groups(m, all, whole(m, all), 4, Bytes{4 * 1700});
  // 928 + 872, 872 + 872, and 872 + 816 are joined; the last is below 1700 and joins its neighbour.
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].slice, (model::Slice{0, 1, true, false}));
  EXPECT_EQ(groups[1].slice, (model::Slice{1, 3, false, true}));
  EXPECT_EQ(groups[1].bytes, Bytes{4 * (3 * 872 + 816)});
  EXPECT_EQ(gradient_groups(m, all, whole(m, all), 4).size(), 1u);
}

TEST(GradientGroups, AStageWithoutAModelIsOneGroup) {
  model::Model m;
  m.layers = 2;
  m.hidden = m.heads = m.kv_heads = m.ffn = m.vocabulary = m.sequence = 1;
  const auto groups = gradient_groups(m, {0, 1, true, false}, Bytes{}, 4);
  EXPECT_THAT(groups, ElementsAre(GradientGroup{{0, 1, true, false}, Bytes{}, 0, 1}));
}

TEST(GradientGroups, CoverTheStageWhateverItHolds) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const auto below = [&](uint64_t n) { return static_cast<int64_t>(random.below(n)); };
    model::Model m = tiny(below(2) == 0);
    m.layers = 1 + below(20);
    m.hidden = 8 * (1 + below(64));
    m.vocabulary = 1 + below(5000);
    model::Slice stage;
    stage.first_layer = below(static_cast<uint64_t>(m.layers));
    stage.layers = 1 + below(static_cast<uint64_t>(m.layers - stage.first_layer));
    stage.embedding = stage.first_layer == 0;
    stage.head = stage.first_layer + stage.layers == m.layers;
    const Bytes gradients = whole(m, stage) / static_cast<double>(1 + below(3));
    const Bytes floor{real(below(1 << 20))};
    SCOPED_TRACE(seed);
    const auto groups = gradient_groups(m, stage, gradients, 4, floor);
    Bytes sum;
    int64_t next = stage.first_layer;
    for (size_t g = 0; g < groups.size(); ++g) {
      EXPECT_EQ(groups[g].slice.first_layer, next);
      next += groups[g].slice.layers;
      EXPECT_EQ(groups[g].slice.embedding, g == 0 && stage.embedding);
      EXPECT_EQ(groups[g].slice.head, g + 1 == groups.size() && stage.head);
      EXPECT_TRUE(groups.size() == 1 || groups[g].bytes >= floor);
      EXPECT_TRUE(g == 0 || groups[g].needed_at >= groups[g - 1].needed_at);
      EXPECT_DOUBLE_EQ(groups[g].needed_at + groups[g].complete_at, 1);
      sum += groups[g].bytes;
    }
    EXPECT_EQ(next, stage.first_layer + stage.layers);
    EXPECT_EQ(sum, gradients);
  }
}

}  // namespace
}  // namespace tombolo::plan
