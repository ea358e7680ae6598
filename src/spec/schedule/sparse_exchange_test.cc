#include "spec/schedule/sparse_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace tombolo::schedule {
namespace {

using ::testing::ElementsAre;

TEST(SparseExchange, LeadersTakeTurns) {
  const std::vector<int32_t> where = {4, 4, 7, 7, 7};
  EXPECT_THAT(leaders_of(where, 0), ElementsAre(0, 2));
  EXPECT_THAT(leaders_of(where, 1), ElementsAre(1, 3));
  EXPECT_THAT(leaders_of(where, 2), ElementsAre(0, 4));
}

// Two alone: one update each way.
TEST(SparseExchange, OfTwoReplicasIsAnUpdateEachWay) {
  const auto rounds = sparse_exchange(std::vector{0, 1}, 100, 3).rounds;
  ASSERT_EQ(rounds.size(), 1u);
  EXPECT_THAT(rounds[0], ElementsAre(ExchangeMessage{0, 1, 0, 100, false, 0},
                                     ExchangeMessage{1, 0, 0, 100, false, 1}));
}

// By the words of the header: a replica that sends has what it sends, all replicas end with every
// update, made of all gradients of its datacenter, and no two messages of a pair share a round.
TEST(SparseExchange, EverybodyEndsWithEveryUpdate) {
  const std::vector<std::vector<int32_t>> layouts = {
      {0, 1}, {0, 0, 1}, {0, 1, 1, 0}, {2, 1, 0}, {0, 0, 1, 1, 2, 2}, {0, 1, 1, 2, 2, 2, 3}};
  for (const auto& where : layouts) {
    for (int32_t group = 0; group < 4; ++group) {
      const auto members = by_datacenter(where);
      const auto leaders = leaders_of(where, group);
      std::vector<std::set<int32_t>> added(where.size()), has(where.size());
      for (const auto& round : sparse_exchange(where, 10, group).rounds) {
        const auto before = has;
        const auto summed = added;
        std::set<std::pair<int32_t, int32_t>> pairs;
        for (const ExchangeMessage& m : round) {
          EXPECT_TRUE(pairs.emplace(m.from, m.to).second);
          if (!m.is_update()) {
            EXPECT_EQ(where[m.from], where[m.to]);
            added[m.to].insert(m.from);
            continue;
          }
          const auto of = static_cast<size_t>(m.update_of);
          const bool makes = leaders[of] == m.from;
          if (makes) {
            EXPECT_EQ(summed[m.from].size() + 1, members[of].size());
          } else {
            EXPECT_TRUE(before[m.from].contains(m.update_of));
            EXPECT_EQ(where[m.from], where[m.to]);
          }
          has[m.to].insert(m.update_of);
        }
      }
      for (size_t r = 0; r < where.size(); ++r) {
        const bool leads = std::count(leaders.begin(), leaders.end(), static_cast<int32_t>(r)) > 0;
        EXPECT_EQ(has[r].size() + (leads ? 1 : 0), members.size()) << "replica " << r;
      }
    }
  }
}

// 1,600 numbers are 100 blocks. Of them a tenth: 24 + 10 (number + 32), numbers of
// 1 + 0.9^128 = 1.0000014 bytes. All: numbers of 1 byte.
TEST(SparseExchange, BytesAreThoseOfTheCode) {
  plan::Exchange exchange{.mode = plan::ExchangeMode::kSparse, .density = 0.1};
  EXPECT_NEAR(expected_update_bytes(exchange, 1600), 24 + 10 * 33, 1e-3);
  exchange.values = plan::SentValues::kTwoBit;
  EXPECT_NEAR(expected_update_bytes(exchange, 1600), 24 + 10 * 6, 1e-3);
  exchange.density = 1;
  EXPECT_EQ(expected_update_bytes(exchange, 1600), 24 + 100 * 6);
  EXPECT_EQ(expected_update_bytes(exchange, 0), 24);
  // At 1 %: 1 + 0.99^128 = 1.276 bytes.
  exchange = {.mode = plan::ExchangeMode::kSparse};
  EXPECT_NEAR(expected_update_bytes(exchange, 16'000'000), 24 + 10'000 * 33.276, 20);
}

// 10 chunks and 32 numbers more: 64 of each and the half of one, 641 numbers in 962 bytes and 41 groups
// of values.
TEST(SparseExchange, BytesOfChunksAreExact) {
  plan::Exchange exchange{.mode = plan::ExchangeMode::kSparseLocal,
                          .select = plan::Select::kChunks};
  EXPECT_EQ(expected_update_bytes(exchange, 40'992), 24 + 962 + 41 * 32);
  exchange.values = plan::SentValues::kTwoBit;
  EXPECT_EQ(expected_update_bytes(exchange, 40'992), 24 + 962 + 41 * 5);
  exchange.density = 1;
  EXPECT_EQ(expected_update_bytes(exchange, 4096), 24 + 6144 + 256 * 5);
}

}  // namespace
}  // namespace tombolo::schedule
