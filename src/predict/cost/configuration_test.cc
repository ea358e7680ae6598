#include "predict/cost/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::cost {
namespace {

layout::DimensionOrder order_of(const layout::Degrees& degrees, const std::string& text) {
  layout::Parallelism parallelism{degrees};
  parallelism.order = text;
  return *layout::dimension_order(parallelism, "job.toml");
}

using ::testing::HasSubstr;

// 256 ranks on domains of 8: tensor 4 inside, context 2 beside it, data and pipeline in the
// network; experts over 16 of the 32 ranks of context and data, of which a domain holds 2.
TEST(Layout, FillsADomainFromTheInside) {
  const Configuration c{{.tensor = 4, .context = 2, .data = 16, .pipeline = 2, .expert = 16}};
  const GroupPlacement layout = lay_out(c, 8);
  EXPECT_EQ(layout.tensor, (DegreeSplit{4, 1}));
  EXPECT_EQ(layout.context, (DegreeSplit{2, 1}));
  EXPECT_EQ(layout.data, (DegreeSplit{1, 16}));
  EXPECT_EQ(layout.pipeline, (DegreeSplit{1, 2}));
  EXPECT_EQ(layout.gradients, (DegreeSplit{2, 16}));
  EXPECT_EQ(layout.expert, (DegreeSplit{2, 8}));
}

TEST(Layout, FollowsTheOrderOfTheJob) {
  Configuration c{{.tensor = 4, .data = 4, .pipeline = 4}};
  c.order = order_of(c, "pp-tp-dp");
  EXPECT_EQ(lay_out(c, 8).pipeline, (DegreeSplit{4, 1}));
  EXPECT_EQ(lay_out(c, 8).tensor, (DegreeSplit{2, 2}));
}

TEST(Layout, LeavesSomeOfADomainOf72Idle) {
  EXPECT_EQ(usable_domain(72, 256), 64);
  EXPECT_EQ(usable_domain(72, 576), 72);
  EXPECT_EQ(usable_domain(72, 64), 64);
  EXPECT_EQ(usable_domain(72, 96), 48);
  EXPECT_EQ(usable_domain(8, 12), 8);
}

TEST(Layout, HoldsEveryDimension) {
  Configuration c{{.tensor = 2, .context = 3}};
  using enum layout::Dimension;
  c.order = {kTensor, kTensor, kExpert, kData, kPipeline};
  EXPECT_DEATH(lay_out(c, 8), "leaves one out: 2 x 1 x 1 x 1 of 2 x 3 x 1 x 1 devices");
  EXPECT_DEATH(lay_out(Configuration{{.data = 0}}, 8),
               "a degree of 0 in what is left of a domain, 8");
  EXPECT_DEATH(usable_domain(0, 8), "8 devices in domains of 0");
  const Configuration none{{}, 0};
  EXPECT_DEATH(none.microbatches(), "microbatches of 0 in 1 pipelines");
}

}  // namespace
}  // namespace tombolo::cost
