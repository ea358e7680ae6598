#include "perform/generate/layer_times.h"

#include <gtest/gtest.h>

#include "perform/generate/layer_pace.h"

namespace tombolo::generate {
namespace {

// Heads of 2 numbers, 2 of queries and 1 of keys: matrices 8 x (2 x 4 + 2 x 2) + 3 x 8 x 16 = 480.
const model::Model kModel = {.layers = 2,
                             .hidden = 8,
                             .heads = 2,
                             .kv_heads = 1,
                             .ffn = 16,
                             .vocabulary = 50,
                             .sequence = 64,
                             .head_dim = 2};

TEST(LayerTimes, CountsTheScoresThatAreComputed) {
  // 3 rows behind 5: they see 6, 7 and 8 tokens, 21 scores of 4 numbers, twice.
  EXPECT_EQ(layer_flops(kModel, {.rows = 3, .past = 5}).value, 2 * 3 * 480 + 4 * 4 * 21);
  EXPECT_EQ(layer_flops(kModel, {.rows = 1, .head = true}).value, 2 * 480 + 4 * 4 * 1 + 2 * 8 * 50);
}

TEST(LayerTimes, KnowsNothingAtFirst) { EXPECT_EQ(LayerTimes(kModel).expect({.rows = 4}).ns, 0); }

TEST(LayerTimes, ExpectsTheSlowestOfTheLastSixteen) {
  LayerTimes times(kModel);
  const LayerWork work{.rows = 4};
  times.observe(work, SimDuration{9000});
  times.observe(work, SimDuration{3000});
  EXPECT_EQ(times.expect(work).ns, 9000);
  for (int i = 0; i < 15; ++i) times.observe(work, SimDuration{2000});
  EXPECT_EQ(times.expect(work).ns, 3000);
  times.observe(work, SimDuration{2000});
  EXPECT_EQ(times.expect(work).ns, 2000);
}

// 7 rows are of the kind of 4: the same time per FLOP. 64 are of none: that of fewer rows.
TEST(LayerTimes, ScalesByFlopsWithinAKind) {
  LayerTimes times(kModel);
  const LayerWork four{.rows = 4}, seven{.rows = 7, .past = 3}, many{.rows = 64}, one{.rows = 1};
  times.observe(four, SimDuration{8000});
  const double per_flop = 8000 / layer_flops(kModel, four).value;
  EXPECT_NEAR(static_cast<double>(times.expect(seven).ns),
              per_flop * layer_flops(kModel, seven).value, 1);
  times.observe(one, SimDuration{7000});
  EXPECT_NEAR(static_cast<double>(times.expect(many).ns),
              per_flop * layer_flops(kModel, many).value, 1);
  EXPECT_EQ(times.expect(one).ns, 7000);
}

// Prompts of 16 rows are refused for ever by one slow layer of another kind, unless that is forgotten.
TEST(LayerPace, DoubtsEveryKindOfWork) {
  LayerPace pace(kModel);
  const LayerWork one{.rows = 1}, many{.rows = 16};
  for (const int64_t ns : {90'000, 1000}) pace.observe(one, SimDuration{ns});
  for (const int64_t ns : {4000, 3000}) pace.observe(many, SimDuration{ns});
  for (int i = 0; i < 7; ++i) pace.doubt();
  EXPECT_EQ(pace.expect(one).ns, 90'000);
  pace.doubt();
  EXPECT_EQ(pace.expect(one).ns, 1000);
  EXPECT_EQ(pace.expect(many).ns, 3000);
}

}  // namespace
}  // namespace tombolo::generate
