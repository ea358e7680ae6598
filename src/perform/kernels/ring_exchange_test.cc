#include "perform/kernels/ring_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <future>

#include "base/random.h"
#include "support/virtual_network.h"

namespace tombolo::kernels {
namespace {

using ::testing::Each;

using Numbers = std::vector<double>;

Payload bytes_of(std::span<const double> numbers) {
  Payload out(numbers.size_bytes());
  if (!out.empty()) std::memcpy(out.data(), numbers.data(), out.size());
  return out;
}

// One rank's numbers and where each chunk of them lies.
struct Contribution {
  Numbers numbers;
  size_t ranks;

  std::span<double> chunk(size_t c) {
    const Share share = share_of(static_cast<int64_t>(numbers.size()), static_cast<int64_t>(c),
                                 static_cast<int64_t>(ranks));
    return std::span(numbers).subspan(static_cast<size_t>(share.first),
                                      static_cast<size_t>(share.count));
  }
  RingWork work() {
    return {.give = [this](const RingStep& step) { return bytes_of(chunk(step.chunk)); },
            .take = [this](const RingStep& step, const link::Received& message) -> Status {
              const Payload& payload = message.payload;
              const std::span<double> own = chunk(step.chunk);
              if (payload.size() != own.size_bytes()) return failed("another chunk");
              for (size_t i = 0; i < own.size(); ++i) {
                double other = 0;
                std::memcpy(&other, payload.data() + 8 * i, 8);
                own[i] = step.sums ? own[i] + other : other;
              }
              return {};
            }};
  }
};

// All ranks of a ring in threads; rank r begins at begins[r].
struct Outcome {
  std::vector<Numbers> numbers;
  std::vector<SimTime> ends;
  int64_t messages = 0;
};

Outcome run_ring(std::vector<Numbers> numbers, const link::LinkShape& shape,
                 std::vector<SimTime> begins = {}) {
  const size_t n = numbers.size();
  VirtualNetwork network([&](int32_t, int32_t) { return shape; });
  Outcome out;
  out.numbers.resize(n);
  out.ends.resize(n);
  std::vector<int32_t> ranks;
  for (size_t r = 0; r < n; ++r) ranks.push_back(static_cast<int32_t>(10 + 3 * r));
  std::vector<std::future<Status>> done;
  for (size_t r = 0; r < n; ++r) {
    done.push_back(std::async(std::launch::async, [&, r] {
      ManualClock clock;
      if (!begins.empty()) clock.sleep_until(begins[r]);
      VirtualMessenger messenger(network, ranks[r], clock);
      Contribution own{numbers[r], n};
      const Status status =
          ring_exchange({.ranks = ranks, .own = r, .messenger = &messenger}, 1, own.work());
      out.numbers[r] = own.numbers;
      out.ends[r] = clock.now();
      return status;
    }));
  }
  for (auto& status : done) EXPECT_TRUE(status.get());
  out.messages = network.messages();
  return out;
}

// Every rank in a thread; how each ends.
std::vector<Status> in_a_ring(size_t n, const std::function<Status(const Replicas&)>& act) {
  VirtualNetwork network([](int32_t, int32_t) { return link::LinkShape{}; });
  std::vector<int32_t> ranks;
  for (size_t r = 0; r < n; ++r) ranks.push_back(static_cast<int32_t>(r));
  std::vector<std::future<Status>> done;
  for (size_t r = 0; r < n; ++r) {
    done.push_back(std::async(std::launch::async, [&, r] {
      ManualClock clock;
      VirtualMessenger messenger(network, ranks[r], clock);
      return act({.ranks = ranks, .own = r, .messenger = &messenger});
    }));
  }
  std::vector<Status> ends;
  for (auto& status : done) ends.push_back(status.get());
  return ends;
}

// Every rank ends with the sum over all, whatever the size: also where chunks differ or are empty.
TEST(RingExchange, EveryRankEndsWithEverySum) {
  for (size_t n = 2; n <= 5; ++n) {
    for (const size_t size : {0u, 1u, 3u, 7u, 20u, 31u}) {
      std::vector<Numbers> numbers(n, Numbers(size));
      Numbers sum(size, 0.0);
      for (size_t r = 0; r < n; ++r) {
        for (size_t i = 0; i < size; ++i) {
          numbers[r][i] = static_cast<double>(1 + r * 1000 + i * i);
          sum[i] += numbers[r][i];  // whole numbers: exact in any order
        }
      }
      const Outcome out = run_ring(numbers, {});
      EXPECT_THAT(out.numbers, Each(sum)) << n << " ranks, " << size << " numbers";
      EXPECT_EQ(out.messages, static_cast<int64_t>(n * 2 * (n - 1)));
    }
  }
}

// (1 + 1e16) - 1e16 is 0 in doubles, 1 + (1e16 - 1e16) is 1: the order shows, and all agree on it.
TEST(RingExchange, AllRanksSumInOneOrder) {
  const std::vector<Numbers> numbers = {{1, 1, 1}, {1e16, 1e16, 1e16}, {-1e16, -1e16, -1e16}};
  const Outcome out = run_ring(numbers, {});
  EXPECT_EQ(out.numbers[1], out.numbers[0]);
  EXPECT_EQ(out.numbers[2], out.numbers[0]);
  // Chunk c starts at rank c: (1 + 1e16) - 1e16, (1e16 - 1e16) + 1, (-1e16 + 1) + 1e16.
  EXPECT_EQ(out.numbers[0], (Numbers{0, 1, 0}));
}

// 4 ranks, 4000 numbers of 8 bytes, 1 GBps, 50 us: 6 steps of 8 us + 50 us.
TEST(RingExchange, LastsAsLongAsTheLawSays) {
  const link::LinkShape shape{.rate = 1_GBps, .delay = {50'000}};
  const SimDuration law{6 * 58'000};
  const Outcome together = run_ring(std::vector<Numbers>(4, Numbers(4000)), shape);
  EXPECT_THAT(together.ends, Each(SimTime{} + law));
}

// ((x[c] + x[c + 1]) + ...) + x[c - 1], and hardly ever what another order gives.
TEST(RingSum, AddsAlongTheRingAndAllEndWithTheSameBits) {
  for (const size_t n : {2u, 3u, 5u}) {
    for (const int64_t size : {0, 1, 4, 1003}) {
      std::vector<std::vector<float>> x(n);
      Random random(n + static_cast<uint64_t>(size));
      for (auto& numbers : x) {
        for (int64_t i = 0; i < size; ++i)
          numbers.push_back(static_cast<float>((random.uniform() - 0.5) *
                                               static_cast<double>(1 << random.below(20))));
      }
      auto sums = x;
      const std::vector<Status> ends =
          in_a_ring(n, [&](const Replicas& ring) { return ring_sum(ring, 7, sums[ring.own]); });
      for (const Status& end : ends) ASSERT_TRUE(end) << end.error().text();
      for (size_t c = 0; c < n; ++c) {
        const Share chunk = share_of(size, static_cast<int64_t>(c), static_cast<int64_t>(n));
        for (int64_t i = chunk.first; i < chunk.first + chunk.count; ++i) {
          float expected = x[c][static_cast<size_t>(i)];
          for (size_t k = 1; k < n; ++k) expected += x[(c + k) % n][static_cast<size_t>(i)];
          for (const auto& sum : sums) ASSERT_EQ(sum[static_cast<size_t>(i)], expected) << i;
        }
      }
    }
  }
}

TEST(RingSum, RefusesAChunkOfAnotherLength) {
  const std::vector<Status> ends = in_a_ring(2, [](const Replicas& ring) {
    std::vector<float> numbers(ring.own == 0 ? 10 : 14);
    return ring_sum(ring, 1, numbers);
  });
  for (const Status& end : ends) {
    ASSERT_FALSE(end);
    EXPECT_THAT(end.error().text(), ::testing::HasSubstr("start every rank with the same Plan"));
  }
}

// The chunk that begins at the late rank passes all others; none ends before it got everything.
TEST(RingExchange, WaitsForTheLastRank) {
  const link::LinkShape shape{.rate = 1_GBps, .delay = {50'000}};
  const SimTime late{1'000'000};
  const Outcome out =
      run_ring(std::vector<Numbers>(4, Numbers(4000)), shape, {{}, {}, late, {500'000}});
  const SimTime end = late + SimDuration{6 * 58'000};
  EXPECT_EQ(*std::max_element(out.ends.begin(), out.ends.end()), end);
  for (const SimTime each : out.ends) EXPECT_GT(each, late);
}

TEST(RingExchange, FailsWhenARankIsGone) {
  VirtualNetwork network([](int32_t, int32_t) { return link::LinkShape{}; });
  network.close();
  ManualClock clock;
  VirtualMessenger messenger(network, 4, clock);
  Contribution own{{1, 2}, 2};
  const Status status =
      ring_exchange({.ranks = {4, 5}, .own = 0, .messenger = &messenger}, 1, own.work());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kLostPeer);
}

TEST(Barrier, EndsWhenTheLastOneComes) {
  const std::vector<int32_t> ranks = {0, 1, 2};
  VirtualNetwork network([](int32_t, int32_t) { return link::LinkShape{}; });
  std::vector<std::future<SimTime>> ends;
  for (size_t r = 0; r < 3; ++r) {
    ends.push_back(std::async(std::launch::async, [&, r] {
      ManualClock clock;
      clock.sleep_until(SimTime{static_cast<int64_t>(1000 * r)});
      VirtualMessenger messenger(network, ranks[r], clock);
      EXPECT_TRUE(barrier({.ranks = ranks, .own = r, .messenger = &messenger}, 1));
      return clock.now();
    }));
  }
  for (auto& end : ends) EXPECT_EQ(end.get().ns, 2000);
}

TEST(RingExchangeDeathTest, ReplicasHaveJoined) {
  const Replicas alone;
  EXPECT_DEATH(static_cast<void>(barrier(alone, 1)), "replica 0 of 0 has not joined the others");
  EXPECT_DEATH(static_cast<void>(ring_exchange(alone, 1, {})), "replica 0 of 0 has not joined");
  VirtualNetwork network({});
  ManualClock clock;
  VirtualMessenger messenger(network, 0, clock);
  const Replicas one{.ranks = {0}, .own = 0, .messenger = &messenger, .address = {}};
  EXPECT_DEATH(static_cast<void>(ring_exchange(one, 1, {})), "a ring without work");
}

}  // namespace
}  // namespace tombolo::kernels
