// Operators that are performed are those that `tombolo strand` plans: names, links, and what waits for what.
#include <gtest/gtest.h>

#include "perform/train/layer_steps.h"
#include "predict/strand/layer_strands.h"

namespace tombolo::train {
namespace {

void expect_same(const strand::Dag& planned, const std::vector<LayerStep>& performed) {
  ASSERT_EQ(planned.size(), performed.size());
  for (size_t i = 0; i < performed.size(); ++i) {
    strand::OperatorSet after = 0;
    for (const size_t number : performed[i].after) after |= strand::only(number);
    EXPECT_EQ(planned[i].name, performed[i].name);
    EXPECT_EQ(planned[i].after, after) << performed[i].name;
    EXPECT_EQ(planned[i].async, performed[i].async) << performed[i].name;
    EXPECT_EQ(strand::is_communication(planned[i].kind), performed[i].communicates)
        << performed[i].name;
  }
}

TEST(StrandNames, PlannedOperatorsArePerformed) {
  for (const Meeting meeting : {Meeting::kNone, Meeting::kSums, Meeting::kRows}) {
    for (const bool again : {false, true}) {
      const strand::LayerStrands planned =
          strand::layer_strands({.tensor = meeting != Meeting::kNone,
                                 .sequence_parallel = meeting == Meeting::kRows,
                                 .gather_again = again},
                                {});
      expect_same(planned.forward, forward_steps(meeting));
      expect_same(planned.backward, backward_steps(meeting, again));
    }
  }
}

}  // namespace
}  // namespace tombolo::train
