#include "predict/strand/cut_products.h"

#include <gtest/gtest.h>

#include "predict/strand/gain_spread.h"

namespace tombolo::strand {
namespace {

// A gather of 4 s and its product of 8 s, a product of 8 s and its scatter of 4 s.
Dag block_to_cut() {
  Dag dag;
  const auto add = [&](const char* name, Kind kind, double seconds, OperatorSet after) {
    const Stream stream = is_communication(kind) ? Stream::kLocal : Stream::kCompute;
    return only(dag.add(
        {.name = name, .kind = kind, .stream = stream, .seconds = seconds, .after = after}));
  };
  const OperatorSet gather = add("AG", Kind::kTensor, 4, 0);
  const OperatorSet first = add("FC1", Kind::kProduct, 8, gather);
  const OperatorSet act = add("ACT", Kind::kElementwise, 1, first);
  const OperatorSet second = add("FC2", Kind::kProduct, 8, act);
  add("RS", Kind::kTensor, 4, second);
  return dag;
}

TEST(CutProducts, KeepsWorkAndLosesWhatPiecesLose) {
  const Dag whole = block_to_cut();
  const Dag cut = cut_products(whole, {.pieces = 4, .loss = 0.25});
  EXPECT_EQ(cut.size(), 4 * 4 + 1u);
  double compute = 0, link = 0;
  for (const Operator& op : cut.operators())
    (op.stream == Stream::kLocal ? link : compute) += op.seconds;
  EXPECT_DOUBLE_EQ(compute, 16 * 1.25 + 1);
  EXPECT_DOUBLE_EQ(link, 8);
  EXPECT_EQ(cut_products(whole, {.pieces = 1}).size(), whole.size());
}

// In pieces of four, a quarter of either communication shows where nothing slows down: twice 1 s of 4.
// Paces below 1 cost more, but less than what hides.
TEST(CutProducts, HidesAllButOnePieceAtEitherEnd) {
  const Dag whole = block_to_cut();
  const StrandPair pair(whole, whole, published_overlap("a40-48g").table);
  const double alone = sequential_seconds(pair);
  EXPECT_DOUBLE_EQ(alone, 2 * (4 + 8 + 1 + 8 + 4));
  const double cut = cut_seconds(pair, published_overlap("a40-48g").table, {.pieces = 4});
  EXPECT_LT(cut, alone);
  EXPECT_GE(cut, 2 * (1 + 8 + 1 + 8 + 1));
  EXPECT_GT(cut_seconds(pair, published_overlap("a40-48g").table, {.pieces = 4, .loss = 0.2}), cut);
}

}  // namespace
}  // namespace tombolo::strand
