#include "predict/network/group_layout.h"

#include <gtest/gtest.h>

namespace tombolo::network {
namespace {

Topology grid(Block inner = Block::kSwitch) {
  return *Topology::create({{inner, 8, 100, 0}, {Block::kSwitch, 4, 50, 0}});
}

TEST(GroupLayout, IsAProductOfPartsOfDimensions) {
  const Topology topology = grid();
  const auto spans = [&](const std::vector<int32_t>& ranks) { return lay_out(ranks, topology); };
  const std::vector<int32_t> first = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(spans(first), (GroupLayout{{0, {}, 8}}));
  EXPECT_EQ(spans({8, 9, 10, 11}), (GroupLayout{{0, {0, 1, 2, 3}, 4}}));
  EXPECT_EQ(spans({13, 11}), (GroupLayout{{0, {0, 2}, 2}}));
  EXPECT_EQ(spans({1, 9, 17, 25}), (GroupLayout{{1, {}, 4}}));
  EXPECT_EQ(spans({1, 17, 5, 21}), (GroupLayout{{0, {0, 4}, 2}, {1, {0, 2}, 2}}));
  EXPECT_EQ(spans({5}), GroupLayout{});
}

TEST(GroupLayout, OtherGroupsHaveNone) {
  const Topology topology = grid();
  const std::vector<int32_t> crooked = {0, 9}, three = {0, 1, 8}, across = {6, 7, 8, 9};
  for (const auto& ranks : {crooked, three, across}) EXPECT_FALSE(lay_out(ranks, topology));
}

// Half a ring is no ring; every second of its NPUs is one.
TEST(GroupLayout, MembersOfAnArcAreNotAlike) {
  const auto alike_on = [](Block block, const std::vector<int32_t>& ranks) {
    const Topology topology = grid(block);
    return alike(lay_out(ranks, topology)->at(0), topology);
  };
  EXPECT_TRUE(alike_on(Block::kSwitch, {0, 1, 2, 3}));
  EXPECT_FALSE(alike_on(Block::kRing, {0, 1, 2, 3}));
  EXPECT_FALSE(alike_on(Block::kRing, {0, 2, 4}));
  EXPECT_TRUE(alike_on(Block::kRing, {1, 3, 5, 7}));
  EXPECT_TRUE(alike_on(Block::kRing, {0, 1, 2, 3, 4, 5, 6, 7}));
}

}  // namespace
}  // namespace tombolo::network
