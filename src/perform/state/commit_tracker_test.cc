#include "perform/state/commit_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "support/test_plan.h"

namespace tombolo::state {
namespace {

using ::testing::HasSubstr;

state::Shard shard_of(int32_t rank, int64_t epoch) {
  const std::string digest = fmt::format("{:032}", rank);
  return {.file = state::shard_file(rank, digest), .bytes = 8, .digest = digest, .epoch = epoch};
}

// Two stages, two replicas each; replica 0 writes.
class Commits : public ::testing::Test {
 protected:
  const plan::Plan plan_ = make_test_plan({.stages = 2, .replicas = 2, .steps = 10});
  const int32_t first_ = plan_.rank_of(0, 0), last_ = plan_.rank_of(1, 0);
  CommitTracker book_{plan_, 3};
};

TEST_F(Commits, WaitForEveryShardAndThenForEveryRank) {
  EXPECT_FALSE(*book_.add(first_, 4, shard_of(first_, 3)));
  EXPECT_FALSE(book_.pending());
  const auto manifest = *book_.add(last_, 4, shard_of(last_, 3));
  ASSERT_TRUE(manifest);
  EXPECT_EQ(manifest->step, 4);
  EXPECT_EQ(manifest->shards.size(), 2u);
  for (const int32_t rank : {2, 0, 3}) EXPECT_FALSE(*book_.committed(rank, 4));
  EXPECT_TRUE(book_.pending()) << "rank 1 has not";
  EXPECT_THAT(book_.committed(2, 4).error().text(), HasSubstr("was not asked to")) << "twice";
  EXPECT_TRUE(*book_.committed(1, 4));
  EXPECT_FALSE(book_.pending());
}

// Each replica has a part of the optimizer's state, and none can be done without.
TEST_F(Commits, OfShardedStateWaitForEveryReplica) {
  plan::Plan plan = plan_;
  plan.parallelism.zero = 1;
  for (cluster::Datacenter& each : plan.cluster.datacenters)
    each.device.kind = cluster::DeviceKind::kCpu;  // emulated ones have no such state
  CommitTracker book(plan, 3);
  for (int32_t rank = 0; rank < 4; ++rank) {
    const auto said = book.add(rank, 4, shard_of(rank, 3));
    ASSERT_TRUE(said) << said.error().text();
    ASSERT_EQ(said->has_value(), rank == 3);
    if (*said) {
      EXPECT_EQ((*said)->shards.size(), 4u);
    }
  }
}

// A rank that was cut off and suspended, and continues when all others have started a new epoch.
TEST_F(Commits, RefuseWhatAZombieReports) {
  const auto zombie = book_.add(first_, 4, shard_of(first_, 2));
  ASSERT_FALSE(zombie);
  EXPECT_THAT(zombie.error().text(),
              HasSubstr(fmt::format("rank {} of step 4 was refused: it is of epoch 2, and this is "
                                    "epoch 3",
                                    first_)));
  EXPECT_FALSE(*book_.add(last_, 4, shard_of(last_, 3)));
  EXPECT_TRUE(*book_.add(first_, 4, shard_of(first_, 3))) << "as if it had never come";
}

TEST_F(Commits, RefuseOtherNamesRanksAndSteps) {
  state::Shard shard = shard_of(first_, 3);
  EXPECT_THAT(book_.add(last_, 4, shard).error().text(), HasSubstr("its name is"));
  EXPECT_THAT(book_.add(plan_.rank_of(0, 1), 4, shard).error().text(), HasSubstr("another rank"));
  EXPECT_THAT(book_.add(99, 4, shard).error().text(), HasSubstr("another rank"));
  EXPECT_THAT(book_.add(first_, 11, shard).error().text(), HasSubstr("no such step"));
  EXPECT_THAT(book_.committed(first_, 4).error().text(), HasSubstr("was not asked to"));
}

// Whether its shard or the manifest did not fit: what others say of that step is no news any more.
TEST_F(Commits, AMissedOneNeverExists) {
  CommitTracker book(plan_, 3);
  ASSERT_FALSE(*book.add(first_, 2, shard_of(first_, 3)));
  EXPECT_TRUE(book.missed(2));
  EXPECT_FALSE(book.missed(2)) << "that was known";
  EXPECT_FALSE(*book.add(last_, 2, shard_of(last_, 3)));
  EXPECT_FALSE(book.pending());
  ASSERT_FALSE(*book.add(first_, 4, shard_of(first_, 3)));
  ASSERT_TRUE(*book.add(last_, 4, shard_of(last_, 3)));
  EXPECT_FALSE(*book.committed(0, 4));
  EXPECT_TRUE(book.pending());
  EXPECT_TRUE(book.missed(4));
  EXPECT_TRUE(book.is_missed(4) && !book.is_missed(6));
  EXPECT_FALSE(book.pending());
  for (const int32_t rank : {1, 2, 3}) EXPECT_FALSE(*book.committed(rank, 4));
  ASSERT_FALSE(*book.add(first_, 6, shard_of(first_, 3)));
  EXPECT_TRUE(*book.add(last_, 6, shard_of(last_, 3))) << "the next one does";
}

// Whatever comes in which order: one manifest per step, when all shards are there, and it exists
// when all ranks have said so, not before.
TEST_F(Commits, InAnyOrder) {
  Random random(17);
  for (int round = 0; round < 200; ++round) {
    CommitTracker book(plan_, 3);
    struct Word {
      int64_t step;
      int32_t rank;
      bool commits;
    };
    std::vector<Word> words;
    for (const int64_t step : {2, 4, 6}) {
      words.push_back({step, first_, false});
      words.push_back({step, last_, false});
    }
    std::map<int64_t, int> shards, commits;
    int exist = 0;
    while (!words.empty()) {
      const size_t at = random.below(words.size());
      const Word word = words[at];
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(at));
      if (word.commits) {
        const bool last = *book.committed(word.rank, word.step);
        EXPECT_EQ(last, ++commits[word.step] == 4);
        exist += last;
        continue;
      }
      const auto manifest = *book.add(word.rank, word.step, shard_of(word.rank, 3));
      ASSERT_EQ(manifest.has_value(), ++shards[word.step] == 2);
      if (!manifest) continue;
      for (int32_t rank = 0; rank < 4; ++rank) words.push_back({word.step, rank, true});
    }
    EXPECT_EQ(exist, 3);
    EXPECT_FALSE(book.pending());
  }
}

}  // namespace
}  // namespace tombolo::state
