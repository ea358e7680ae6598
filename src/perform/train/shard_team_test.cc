#include "perform/train/shard_team.h"

#include <gmock/gmock.h>

#include <numeric>
#include <stdexcept>

namespace tombolo::train {
namespace {

// Each sees what all wrote before they met, again and again.
TEST(ShardTeam, MeetsInOrder) {
  for (const int32_t shards : {1, 2, 3, 8}) {
    ShardTeam team(shards);
    std::vector<int64_t> values(static_cast<size_t>(shards));
    for (int call = 0; call < 20; ++call) {
      team.run([&](int32_t shard) {
        for (int64_t round = 0; round < 50; ++round) {
          values[static_cast<size_t>(shard)] = round * shards + shard;
          team.meet();
          const int64_t sum = std::accumulate(values.begin(), values.end(), int64_t{0});
          EXPECT_EQ(sum, round * shards * shards + shards * (shards - 1) / 2);
          team.meet();
        }
      });
    }
  }
}

TEST(ShardTeam, ThrowsWhatAShardThrewAndGoesOn) {
  ShardTeam team(4);
  for (int32_t bad = 0; bad < 4; ++bad) {
    const auto run = [&] {
      team.run([&](int32_t shard) {
        team.meet();
        if (shard == bad) throw std::runtime_error(std::to_string(bad));
        team.meet();
      });
    };
    EXPECT_THROW(
        try { run(); } catch (const std::runtime_error& error) {
          EXPECT_EQ(error.what(), std::to_string(bad));
          throw;
        },
        std::runtime_error);
    std::atomic<int> through = 0;
    team.run([&](int32_t) {
      team.meet();
      ++through;
    });
    EXPECT_EQ(through, 4);
  }
}

}  // namespace
}  // namespace tombolo::train
