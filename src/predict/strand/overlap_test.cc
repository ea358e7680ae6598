#include "predict/strand/overlap.h"

#include <gtest/gtest.h>

namespace tombolo::strand {
namespace {

// Equation 1 backwards: 10 beside 30 at effectiveness 0.6 hides 6 of the 10, so both take 34. At
// pace 1/1.4 the first ends after 14, and the second has 30 - 10 left.
TEST(Overlap, EffectivenessBecomesAPaceThatGivesItBack) {
  const Pace pace = pace_of_effectiveness(0.6, 0);
  EXPECT_DOUBLE_EQ(pace.first, 1 / 1.4);
  const double first = 10 / pace.first, both = first + (30 - first * pace.second);
  EXPECT_DOUBLE_EQ((10 + 30 - both) / 10, 0.6);
}

// A product of 400 us ends after 441, a gather of 310 after 352: until then the gather went at
// 310/352, the product did all but its last 441 - 352 us.
TEST(Overlap, BothSidesHaveTheirOwnPace) {
  const Pace pace =
      pace_of_times({.first = 400, .second = 310, .first_beside = 441, .second_beside = 352}, 0.01);
  EXPECT_DOUBLE_EQ(pace.second, 310.0 / 352);
  EXPECT_DOUBLE_EQ(pace.first, (400.0 - (441 - 352)) / 352);
  EXPECT_EQ(pace.error, 0.01);
}

// Noise: faster together than alone is full speed; slower than one after the other is one after
// the other.
TEST(Overlap, ImpossibleMeasurementsAreClamped) {
  EXPECT_EQ(pace_of_effectiveness(1.97, 0), (Pace{1, 1, 0}));
  EXPECT_EQ(pace_of_effectiveness(-2.17, 0), (Pace{0.5, 0.5, 0}));
  EXPECT_EQ(pace_of_times({.first = 10, .second = 10, .first_beside = 9, .second_beside = 9}, 0),
            (Pace{1, 1, 0}));
  const Pace slow =
      pace_of_times({.first = 10, .second = 10, .first_beside = 50, .second_beside = 50}, 0);
  EXPECT_DOUBLE_EQ(slow.first + slow.second, 1);
  const Pace odd =
      pace_of_times({.first = 10, .second = 10, .first_beside = 100, .second_beside = 10}, 0);
  EXPECT_GT(odd.first, 0);
  EXPECT_LE(odd.second, 1);
}

const Operator kProduct{.name = "FC1"};
const Operator kGather{.name = "AG1", .kind = Kind::kTensor, .stream = Stream::kLocal};
const Operator kKeys{.name = "P1", .kind = Kind::kContext, .stream = Stream::kCross};

TEST(Overlap, NamesComeBeforeClasses) {
  OverlapTable table;
  table.set("product", "local", {0.8, 0.7});
  EXPECT_EQ(table.pace(kProduct, kGather), (Pace{0.8, 0.7}));
  EXPECT_EQ(table.pace(kGather, kProduct), (Pace{0.7, 0.8}));
  table.set("AG1", "product", {0.6, 0.9});
  EXPECT_EQ(table.pace(kProduct, kGather), (Pace{0.9, 0.6}));
  table.set("FC1", "AG1", {1, 0.5});
  Operator second_layer = kProduct;
  second_layer.name = "FC1.2";
  EXPECT_EQ(table.pace(second_layer, kGather), (Pace{1, 0.5}));
  EXPECT_EQ(table.pace(kProduct, kKeys), pace_of_effectiveness(0, 0));  // stands nowhere
}

// Copy engines and RDMA take no multiprocessors: nearly all of them hides, whatever is beside.
TEST(Overlap, CopiesHideBehindEverythingButTheirOwnLink) {
  Operator copy = kKeys;
  copy.no_sm = true;
  EXPECT_EQ(class_of(copy), "copy");
  const OverlapTable nothing;
  EXPECT_GT(nothing.pace(kProduct, copy).first, 0.95);
  EXPECT_GT(nothing.pace(copy, kGather).first, 0.95);
  EXPECT_EQ(nothing.pace(copy, kKeys), pace_of_effectiveness(0, 0));
}

TEST(Overlap, PublishedTablesAreChosenByDevice) {
  const PublishedOverlap a40 = published_overlap("a40-48g");
  EXPECT_EQ(a40.platform, "A40");
  EXPECT_FALSE(a40.nearest);
  EXPECT_EQ(a40.table.pace(kGather, kKeys), pace_of_effectiveness(0.37, 0.05));
  EXPECT_EQ(published_overlap("emulated:a100-80g").platform, "A800");
  EXPECT_TRUE(published_overlap("a100-80g").nearest);
  EXPECT_EQ(published_overlap("h200").platform, "H100");
  EXPECT_TRUE(published_overlap("cpu").nearest);
}

}  // namespace
}  // namespace tombolo::strand
