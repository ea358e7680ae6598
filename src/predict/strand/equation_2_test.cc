#include "predict/strand/equation_2.h"

#include <gtest/gtest.h>

#include "predict/strand/ideal_search.h"
#include "predict/strand/layer_strands.h"

namespace tombolo::strand {
namespace {

// Two segments against one, by hand: T(1,0) = 3, T(2,0) = 5, T(0,1) = 4, T(1,1) = min(3+4, 4+3, 5)
// = 5, T(2,1) = min(T(1,1) + 2, T(2,0) + 4, T(1,0) + P(2,1)) = min(7, 9, 3 + 4.5) = 7.
TEST(Equation2, IsItsRecurrence) {
  const SegmentTimes p{.forward = {3, 2}, .backward = {4}, .paired = {5, 4.5}};
  EXPECT_EQ(equation_2(p), (std::vector<double>{0, 4, 3, 5, 5, 7}));
}

TEST(Equation2, OfNothingIsNothing) { EXPECT_EQ(equation_2({}), std::vector<double>{0}); }

// On given partitions of a layer every entry obeys the recurrence, and pairing never loses.
TEST(Equation2, HoldsOnPartitionsOfALayer) {
  const cost::LayerOperators o{.query = 3,
                               .projection = 2,
                               .attention = 2,
                               .attention_backward = 5,
                               .mlp = {12, 6, 1},
                               .norms = 2,
                               .gather = 4};
  const LayerStrands layer = layer_strands({.tensor = true, .sequence_parallel = true}, o);
  const StrandPair pair(layer.forward, layer.backward, published_overlap("a40-48g").table);
  const SegmentTimes p =
      segment_times(pair, single_operators(layer.forward), single_operators(layer.backward), 0.01);
  const std::vector<double> t = equation_2(p);
  const size_t nb = p.backward.size();
  ASSERT_EQ(t.size(), 15U * 19);
  for (size_t i = 1; i <= p.forward.size(); ++i) {
    for (size_t j = 1; j <= nb; ++j) {
      const double wanted =
          std::min({t[(i - 1) * (nb + 1) + j] + p.forward[i - 1],
                    t[i * (nb + 1) + j - 1] + p.backward[j - 1],
                    t[(i - 1) * (nb + 1) + j - 1] + p.paired[(i - 1) * nb + j - 1]});
      EXPECT_EQ(t[i * (nb + 1) + j], wanted);
    }
  }
  // One order and one partition of all that the search over ideals looks at.
  const SegmentPlan single = search_segments(pair, {.segment_max = 1, .barrier = 0.01});
  EXPECT_LE(single.seconds, t.back());
  EXPECT_EQ(single.states, 15 * 106);
  const SegmentPlan longer = search_segments(pair, {.segment_max = 4, .barrier = 0.01});
  EXPECT_LT(longer.seconds, single.seconds);
}

}  // namespace
}  // namespace tombolo::strand
