#include "perform/stage/cell_relay.h"

#include <gtest/gtest.h>

#include <future>

#include "base/check.h"
#include "perform/kernels/neighbours.h"
#include "support/test_plan.h"

namespace tombolo::stage {
namespace {

using link::Passage;
using link::Payload;
using link::Tag;
using transport::Endpoint;

// Two stages with two pipelines each: ranks 0 and 1 in oregon, 2 and 3 in paris, one cell.
plan::Plan four_ranks() {
  return make_test_plan({.microbatches = 2,
                         .replicas = 2,
                         .steps = 2,
                         .transfer = "4 ms",
                         .schedule = "atlas",
                         .sharing = "temporal"});
}

TEST(CellRelay, PassagesFollowTheOrderOfTheBoundary) {
  const plan::Plan plan = four_ranks();
  schedule::Schedule schedule;
  schedule.links = {{.boundary = 0, .gradients = false, .cell = 0, .transfers = {{1, 0}, {0, 1}}},
                    {.boundary = 0, .gradients = true, .cell = 0, .transfers = {{0, 0}}}};
  EXPECT_EQ(members_towards(plan, 3, 1), (std::vector<int32_t>{2, 3}));
  const std::vector<Passage> first = passages_of(plan, schedule, 1);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_TRUE(first[0].outgoing);
  EXPECT_FALSE(first[1].outgoing);
  EXPECT_EQ(first[0].members, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(first[0].across, 3);
  // Microbatch m has tensor 2 m, its gradient one more.
  EXPECT_EQ(first[0].turns[0].owner, 1u);
  EXPECT_EQ(first[0].turns[0].tensor, 0u);
  EXPECT_EQ(first[0].turns[1].owner, 0u);
  EXPECT_EQ(first[0].turns[1].tensor, 2u);
  EXPECT_EQ(first[1].turns[0].tensor, 1u);
  const std::vector<Passage> second = passages_of(plan, schedule, 2);
  EXPECT_FALSE(second[0].outgoing);
  EXPECT_TRUE(second[1].outgoing);
  EXPECT_EQ(second[1].members, (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(second[1].across, 0);
}

// 4 ms for a whole message over one link, 2 ms latency: two links carry it in 2 ms.
TEST(CellRelay, ASharedTransferIsExpectedAsEarlyAsTheCellCanCarryIt) {
  const plan::Plan plan = four_ranks();
  const link::LinkShape one = kernels::shape_between(plan, 0, 2), all = transfer_shape(plan, 0, 2);
  EXPECT_DOUBLE_EQ(all.rate->value, 2 * one.rate->value);
  EXPECT_EQ(transfer_shape(plan, 0, 1).rate, kernels::shape_between(plan, 0, 1).rate);
  EXPECT_EQ(members_towards(plan, 2, 0), (std::vector<int32_t>{2, 3}));
  EXPECT_TRUE(members_towards(plan, 2, 3).empty());
}

// Every rank with its Endpoint, its relay and its messenger, as a RankSession has them.
struct Rank {
  std::unique_ptr<Endpoint> endpoint;
  std::unique_ptr<kernels::EndpointMessenger> messenger;
  std::unique_ptr<CellMessenger> in_cell;
  std::unique_ptr<RelayThread> relay;
};

class CellOfRanks : public ::testing::Test {
 protected:
  explicit CellOfRanks(plan::Plan plan) : plan_(std::move(plan)), ranks_(plan_.ranks.size()) {
    const auto ranks = static_cast<int32_t>(ranks_.size());
    for (int32_t r = 0; r < ranks; ++r) {
      auto endpoint = Endpoint::create({.identity = {.rank = r, .ranks = ranks}}, clock_);
      CHECK(endpoint, "{}", endpoint.error().text());
      ranks_[r].endpoint = std::move(*endpoint);
      ranks_[r].messenger = std::make_unique<kernels::EndpointMessenger>(*ranks_[r].endpoint);
      ranks_[r].in_cell = std::make_unique<CellMessenger>(plan_, r, *ranks_[r].messenger);
    }
    for (int32_t a = 0; a < ranks; ++a) {
      for (const int32_t b : kernels::neighbours(plan_, a)) {
        if (a < b) link(a, b);
      }
    }
  }
  ~CellOfRanks() override {
    for (Rank& rank : ranks_) rank.endpoint->abort({ErrorCode::kFailed, "the test is over"});
  }

  void link(int32_t a, int32_t b) {
    const SimTime deadline = clock_.now() + SimDuration{20'000'000'000};
    auto answer = std::async(std::launch::async,
                             [&] { return ranks_[b].endpoint->await_peer(a, {}, deadline); });
    CHECK(ranks_[a].endpoint->connect(b, "127.0.0.1", ranks_[b].endpoint->port(), {}, deadline),
          "rank {} and rank {}", a, b);
    CHECK(answer.get(), "rank {} and rank {}", b, a);
  }
  void start_relay(int32_t r) {
    const auto schedule = schedule::build(plan_);
    CHECK(schedule, "{}", schedule.error().text());
    ranks_[r].relay = std::make_unique<RelayThread>(
        *ranks_[r].endpoint, link::Relay(passages_of(plan_, *schedule, r), 1, 2),
        [this](const Error& error) { failures_.set_value(error); }, clock_);
  }
  static Payload content(int32_t owner, const Tag& tag) {
    Payload out(1001 + 7 * static_cast<size_t>(owner));
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<std::byte>(i * (tag.tensor + 3) + tag.iteration);
    }
    return out;
  }

  // Activations of two iterations go over, gradients come back.
  void carry_each_others_bytes() {
    const auto ranks = static_cast<int32_t>(ranks_.size()), half = ranks / 2;
    for (int32_t r = 0; r < ranks; ++r) start_relay(r);
    for (uint64_t iteration : {1u, 2u}) {
      for (uint64_t m : {0u, 1u}) {
        for (int32_t r = 0; r < ranks; ++r) {
          const Tag tag{iteration, 2 * m + (r < half ? 0 : 1)};
          ASSERT_TRUE(ranks_[r].in_cell->send((r + half) % ranks, tag, content(r, tag)));
        }
      }
    }
    for (uint64_t iteration : {1u, 2u}) {
      for (uint64_t m : {0u, 1u}) {
        for (int32_t r = 0; r < ranks; ++r) {
          const Tag tag{iteration, 2 * m + (r < half ? 1 : 0)};
          const int32_t owner = (r + half) % ranks;
          const auto message = ranks_[r].in_cell->receive(owner, tag);
          ASSERT_TRUE(message) << message.error().text();
          EXPECT_EQ(message->payload, content(owner, tag));
          EXPECT_LE(message->sent_start, message->delivered);
        }
      }
    }
    for (Rank& rank : ranks_) EXPECT_TRUE(rank.relay->finish());
  }

  SystemClock clock_;
  const plan::Plan plan_;
  std::promise<Error> failures_;
  std::vector<Rank> ranks_;
};

class FourRanks : public CellOfRanks {
 protected:
  FourRanks() : CellOfRanks(four_ranks()) {}
};

// Everything else that a rank does works as before.
TEST_F(FourRanks, CarryEachOthersBytes) {
  ASSERT_TRUE(ranks_[0].in_cell->send(2, {1, kernels::kEvaluationTensor}, content(0, {1, 5})));
  carry_each_others_bytes();
  EXPECT_TRUE(ranks_[2].in_cell->receive(0, {1, kernels::kEvaluationTensor}));
}

// Three pipelines in a cell: 0 stays in oregon, 1 and 2 continue in paris and share the WAN to it.
plan::Plan two_of_three_cross() {
  return make_test_plan(
      {.microbatches = 2,
       .replicas = 3,
       .steps = 2,
       .transfer = "4 ms",
       .schedule = "atlas",
       .sharing = "temporal",
       .places = "datacenter_per_stage = [\"oregon\", [\"oregon\", \"paris\", \"paris\"]]\n"});
}

class SixRanks : public CellOfRanks {
 protected:
  SixRanks() : CellOfRanks(two_of_three_cross()) {}
};

TEST_F(SixRanks, ThoseThatCrossAlikeCarryEachOthersBytes) {
  const schedule::Schedule schedule = *schedule::build(plan_);
  EXPECT_TRUE(passages_of(plan_, schedule, 0).empty());
  EXPECT_TRUE(passages_of(plan_, schedule, 3).empty());
  const std::vector<Passage> passages = passages_of(plan_, schedule, 5);
  ASSERT_EQ(passages.size(), 2u);
  EXPECT_EQ(passages[0].members, (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(passages[0].across, 2);
  for (const link::Turn& turn : passages[0].turns) EXPECT_LT(turn.owner, 2u);
  EXPECT_TRUE(members_towards(plan_, 0, 3).empty());
  EXPECT_EQ(members_towards(plan_, 2, 5), (std::vector<int32_t>{1, 2}));
  EXPECT_DOUBLE_EQ(transfer_shape(plan_, 1, 4).rate->value,
                   2 * kernels::shape_between(plan_, 1, 4).rate->value);
  carry_each_others_bytes();
}

// Rank 3 carries what rank 0 sends to rank 2. When it is gone, who needs it says so by name.
TEST_F(FourRanks, NameARelayThatIsGone) {
  start_relay(1);
  ranks_[3].endpoint = nullptr;
  const Error error = failures_.get_future().get();
  EXPECT_EQ(error.code, ErrorCode::kLostPeer);
  EXPECT_EQ(error.message, "lost rank 3: the connection ended without a goodbye");
  ranks_[3].endpoint = std::move(*Endpoint::create({.identity = {.rank = 3, .ranks = 4}}, clock_));
}

using CellRelayDeathTest = FourRanks;

TEST_F(CellRelayDeathTest, ItIsOfARankAndAwaitedOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // endpoints have threads
  EXPECT_DEATH(passages_of(plan_, {}, 4), "rank 4 of 4 carries nothing");
  EXPECT_DEATH(passages_of(plan_, {}, -1), "rank -1 of 4 carries nothing");
  RelayThread relay(*ranks_[0].endpoint, link::Relay({}, 1, 2), {}, clock_);  // nothing to carry
  EXPECT_TRUE(relay.finish());
  EXPECT_DEATH(static_cast<void>(relay.finish()), "a relay is awaited a second time");
}

}  // namespace
}  // namespace tombolo::stage
