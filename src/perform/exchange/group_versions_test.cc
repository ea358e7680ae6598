#include "perform/exchange/group_versions.h"

#include <gtest/gtest.h>

namespace tombolo::exchange {
namespace {

GroupVersions two_groups(int64_t staleness, bool fixed = false, int64_t first = 1) {
  GroupVersions versions({.first_iteration = first, .staleness = staleness, .fixed = fixed});
  versions.add(0, 0);
  versions.add(0, 1);
  return versions;
}

// The passes of an iteration, from the first forward to the last gradient.
void pass(GroupVersions& versions, int64_t iteration) {
  for (const int32_t g : {0, 1}) EXPECT_TRUE(versions.try_use(0, g, iteration)) << iteration;
  for (const int32_t g : {1, 0}) versions.complete({iteration, 0, g});
}

void update(GroupVersions& versions, const GroupKey& key) {
  EXPECT_TRUE(versions.may_update(key));
  versions.begin_update(key);
  EXPECT_FALSE(versions.try_use(key.stage, key.group, key.iteration + 1));
  versions.end_update(key);
}

TEST(GroupVersions, WithoutStalenessAPassWaitsForTheUpdate) {
  GroupVersions versions = two_groups(0);
  pass(versions, 1);
  EXPECT_FALSE(versions.try_use(0, 0, 2));
  update(versions, {1, 0, 0});
  EXPECT_TRUE(versions.try_use(0, 0, 2));
  EXPECT_FALSE(versions.try_use(0, 1, 2));
  EXPECT_FALSE(versions.is_settled());
  update(versions, {1, 0, 1});
  EXPECT_TRUE(versions.is_settled());
}

TEST(GroupVersions, WithStalenessAPassDoesWithoutOneUpdateAndNotWithoutTwo) {
  GroupVersions versions = two_groups(1);
  pass(versions, 1);
  pass(versions, 2);
  EXPECT_FALSE(versions.try_use(0, 0, 3));  // update 1 is missing
  update(versions, {1, 0, 0});
  EXPECT_TRUE(versions.try_use(0, 0, 3));
}

TEST(GroupVersions, NothingChangesWhilePassesUseIt) {
  GroupVersions versions = two_groups(1);
  pass(versions, 1);
  EXPECT_TRUE(versions.try_use(0, 0, 2));
  EXPECT_FALSE(versions.may_update({1, 0, 0}));
  EXPECT_TRUE(versions.may_update({1, 0, 1}));  // the passes have not come to it yet
  versions.complete({2, 0, 0});
  EXPECT_TRUE(versions.may_update({1, 0, 0}));
}

TEST(GroupVersions, UpdatesGoIterationByIteration) {
  GroupVersions versions = two_groups(1);
  pass(versions, 1);
  pass(versions, 2);
  update(versions, {1, 0, 0});
  EXPECT_FALSE(versions.may_update({2, 0, 0}));  // of iteration 1 one is missing
  update(versions, {1, 0, 1});
  EXPECT_TRUE(versions.may_update({2, 0, 0}));
}

TEST(GroupVersions, CountsWhatWasFresh) {
  GroupVersions versions = two_groups(1);
  pass(versions, 1);
  EXPECT_EQ(versions.take_freshness().fresh, 2);
  update(versions, {1, 0, 0});
  pass(versions, 2);
  const auto second = versions.take_freshness();
  EXPECT_EQ(second.fresh, 1);
  EXPECT_EQ(second.used, 2);
  EXPECT_EQ(versions.take_freshness().used, 0);
}

TEST(GroupVersions, FixedIsNeverFreshUnlessItWasDrained) {
  GroupVersions versions = two_groups(1, true);
  pass(versions, 1);
  EXPECT_FALSE(versions.may_update({1, 0, 0}));  // before the passes of 2
  pass(versions, 2);
  versions.take_freshness();
  update(versions, {1, 0, 0});
  update(versions, {1, 0, 1});
  EXPECT_FALSE(versions.may_update({2, 0, 0}));
  versions.drain(true);
  update(versions, {2, 0, 0});
  update(versions, {2, 0, 1});
  EXPECT_TRUE(versions.is_settled());
  versions.drain(false);
  pass(versions, 3);
  EXPECT_EQ(versions.take_freshness().fresh, 2);
}

TEST(GroupVersions, BeginsWhereACheckpointEnded) {
  GroupVersions versions = two_groups(1, false, 8);
  EXPECT_TRUE(versions.is_settled());
  EXPECT_TRUE(versions.is_taken(0));
  pass(versions, 8);
  EXPECT_FALSE(versions.is_taken(0));
  versions.take({8, 0, 0});
  versions.take({8, 0, 1});
  EXPECT_TRUE(versions.is_taken(0));
}

}  // namespace
}  // namespace tombolo::exchange
