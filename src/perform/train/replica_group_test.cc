#include "perform/train/replica_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <thread>

#include "base/random.h"
#include "perform/train/messenger_store.h"
#include "support/memory_messenger.h"

namespace tombolo::train {
namespace {

using kernels::Replicas;
using testing::HasSubstr;

// Every replica in a thread of its own; `act` is told which one it is.
void on_all(int replicas, const std::function<void(const Replicas&, MemoryHub&)>& act) {
  MemoryHub hub;
  std::vector<std::thread> threads;
  for (int own = 0; own < replicas; ++own) {
    threads.emplace_back([&, own] {
      MemoryMessenger messenger(hub, own);
      Replicas replica{
          .own = static_cast<size_t>(own), .messenger = &messenger, .address = "127.0.0.1"};
      for (int rank = 0; rank < replicas; ++rank) replica.ranks.push_back(rank);
      act(replica, hub);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Numbers of very different size, for which (a + b) + c is seldom a + (b + c).
at::Tensor uneven(int64_t size, uint64_t seed) {
  Random random(seed);
  at::Tensor values = at::empty({size}, at::kFloat);
  float* value = values.data_ptr<float>();
  for (int64_t i = 0; i < size; ++i) {
    value[i] =
        static_cast<float>(random.uniform() - 0.5) * static_cast<float>(1 << random.below(20));
  }
  return values;
}

std::vector<at::Tensor> sums(int replicas, int64_t size) {
  std::vector<at::Tensor> sums(static_cast<size_t>(replicas));
  on_all(replicas, [&](const Replicas& replica, MemoryHub&) {
    auto group = ReplicaGroup::join(replica, 0);
    ASSERT_TRUE(group) << group.error().text();
    at::Tensor values = uneven(size, replica.own);
    const Status summed = (*group)->sum(values);
    ASSERT_TRUE(summed) << summed.error().text();
    sums[replica.own] = values;
  });
  return sums;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == b.numel() && std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

class Sums : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ReplicaGroup, Sums, testing::Values(2, 3, 4));

// 1,000,003 floats are more than the 1 MiB that Gloo sends at once, and no multiple of anything.
TEST_P(Sums, HaveTheSameBitsOnAllReplicasAndOnEveryRun) {
  const int replicas = GetParam();
  for (const int64_t size : {int64_t{1}, int64_t{5}, int64_t{1'000'003}}) {
    const auto first = sums(replicas, size), second = sums(replicas, size);
    for (int i = 0; i < replicas; ++i) {
      EXPECT_TRUE(same_bits(first[0], first[i])) << "replica " << i << " of " << size;
      EXPECT_TRUE(same_bits(first[0], second[i])) << "replica " << i << " of " << size << ", again";
    }
  }
}

// Chunk c of n is ((x[c-1] + x[c-2]) + ...) + x[c], and hardly ever the sum in another order.
TEST_P(Sums, AddUpAlongTheRing) {
  const int n = GetParam();
  const int64_t chunk = 1000;
  const at::Tensor sum = sums(n, n * chunk)[0];
  std::vector<at::Tensor> x;
  for (int replica = 0; replica < n; ++replica) {
    x.push_back(uneven(n * chunk, static_cast<uint64_t>(replica)));
  }
  const auto at_place = [&](int replica, int64_t i) { return x[replica].data_ptr<float>()[i]; };
  int64_t order_matters = 0;
  for (int c = 0; c < n; ++c) {
    for (int64_t i = c * chunk; i < (c + 1) * chunk; ++i) {
      float expected = at_place((c + n - 1) % n, i);
      for (int step = 2; step <= n; ++step) expected += at_place((c + n - step) % n, i);
      ASSERT_EQ(sum.data_ptr<float>()[i], expected) << "number " << i << " of " << n;
      float other = at_place(c, i);
      for (int step = 1; step < n; ++step) other += at_place((c + step) % n, i);
      order_matters += other != expected;
    }
  }
  if (n > 2) {  // a + b is b + a
    EXPECT_GT(order_matters, n * chunk / 10);
  }
}

// On two hosts, or at an address that other hosts can reach, no Gloo connection is made: the
// sums go over the links. RingSum tests their values.
TEST(ReplicaGroup, SumsOverTheLinksWhereReplicasAreOnSeveralHosts) {
  using Addresses = std::vector<std::string>;
  for (const Addresses& addresses : {Addresses{"10.1.0.1", "10.2.0.1", "10.3.0.1"},
                                     Addresses{"127.0.0.1", "127.0.0.1", "10.3.0.1"},
                                     Addresses{"0.0.0.0", "0.0.0.0", "0.0.0.0"}}) {
    std::vector<at::Tensor> sums(3);
    on_all(3, [&](Replicas replica, MemoryHub&) {
      replica.address = addresses[replica.own];
      auto group = ReplicaGroup::join(replica, 3);
      ASSERT_TRUE(group) << group.error().text();
      EXPECT_TRUE((*group)->over_links());
      at::Tensor values = at::empty({2, 5}, at::kFloat);
      for (int turn = 0; turn < 2; ++turn) {
        values.fill_(static_cast<float>(replica.own + 1));
        const Status summed = (*group)->sum(values);
        ASSERT_TRUE(summed) << summed.error().text();
      }
      sums[replica.own] = values;
    });
    for (const at::Tensor& sum : sums) {
      ASSERT_TRUE(sum.defined());
      EXPECT_TRUE(same_bits(sum, at::full({2, 5}, 6, at::kFloat)));
    }
  }
}

// Whole tensors of any type, also where one owner has several and another none.
TEST(ReplicaGroup, GathersWhatEachOwns) {
  for (const char* address : {"127.0.0.1", "10.3.0.1"}) {
    on_all(3, [&](Replicas replica, MemoryHub&) {
      replica.address = address;
      auto group = ReplicaGroup::join(replica, 0);
      ASSERT_TRUE(group) << group.error().text();
      EXPECT_EQ((*group)->over_links(), std::string(address) != "127.0.0.1");
      for (int turn = 0; turn < 2; ++turn) {
        std::vector<ReplicaGroup::Owned> tensors;
        for (const size_t owner : {2, 0, 2}) {
          const auto type = tensors.empty() ? at::kBFloat16 : at::kFloat;
          const double own = owner == replica.own ? turn + 2.5 : -1;
          tensors.push_back(
              {at::full({3, 1 + static_cast<int64_t>(tensors.size())}, own, type), owner});
        }
        const Status gathered = (*group)->gather(tensors);
        ASSERT_TRUE(gathered) << gathered.error().text();
        for (const ReplicaGroup::Owned& each : tensors)
          EXPECT_TRUE(same_bits(each.values, at::full_like(each.values, turn + 2.5)));
        at::Tensor sum = at::ones({2}, at::kFloat);
        ASSERT_TRUE((*group)->sum(sum));  // the two in turns, as iterations have them
        EXPECT_TRUE(same_bits(sum, at::full({2}, 3, at::kFloat)));
      }
    });
  }
}

// Parts of unlike lengths, one of them empty; the sum is that of sum() but for the order of terms.
TEST(ReplicaGroup, ScattersSumsToTheirOwners) {
  for (const bool apart : {false, true}) {
    for (const int replicas : {2, 3, 4}) {
      on_all(replicas, [&](const Replicas& all, MemoryHub&) {
        Replicas replica = all;
        replica.lie_apart = apart;
        auto group = ReplicaGroup::join(replica, 0);
        ASSERT_TRUE(group) << group.error().text();
        EXPECT_EQ((*group)->over_links(), apart);
        for (int round = 0; round < 3; ++round) {
          std::vector<at::Tensor> parts;
          at::Tensor wanted;
          for (size_t owner = 0; owner < replica.ranks.size(); ++owner) {
            const auto size = static_cast<int64_t>(owner) * 1000 + (owner > 0 ? round : 0);
            parts.push_back(
                at::full({size}, static_cast<double>(replica.own + 10 * owner), at::kFloat));
          }
          const auto n = static_cast<double>(replicas), own = static_cast<double>(replica.own);
          wanted = at::full(parts[replica.own].sizes(), n * (n - 1) / 2 + n * 10 * own, at::kFloat);
          ASSERT_TRUE((*group)->scatter(parts));
          EXPECT_TRUE(at::equal(parts[replica.own], wanted));
        }
      });
    }
  }
}

TEST(ReplicaGroup, DoesNotWaitForAReplicaThatIsLostBeforeJoining) {
  on_all(2, [](const Replicas& replica, MemoryHub& hub) {
    if (replica.own == 1) return hub.lose(1);
    const auto group = ReplicaGroup::join(replica, 0);
    ASSERT_FALSE(group);
    EXPECT_EQ(group.error().code, ErrorCode::kLostPeer);
    EXPECT_EQ(group.error().message, "rank 1 went away");
  });
}

TEST(ReplicaGroup, DoesNotWaitForAReplicaThatIsLostBeforeASum) {
  on_all(3, [](const Replicas& replica, MemoryHub& hub) {
    auto group = ReplicaGroup::join(replica, 0);
    ASSERT_TRUE(group) << group.error().text();
    at::Tensor values = at::ones({100'000}, at::kFloat);
    ASSERT_TRUE((*group)->sum(values));
    if (replica.own == 1) return hub.lose(1);
    const Status summed = (*group)->sum(values);
    ASSERT_FALSE(summed);
    EXPECT_EQ(summed.error().code, ErrorCode::kLostPeer);
    EXPECT_EQ(summed.error().message, "rank 1 went away");
  });
}

// Replica 1 says that it is there, and its connections close before it sends anything.
TEST(ReplicaGroup, FailsAtOnceWhenAReplicaDiesInASum) {
  on_all(2, [](const Replicas& replica, MemoryHub& hub) {
    auto group = ReplicaGroup::join(replica, 5);
    ASSERT_TRUE(group) << group.error().text();
    if (replica.own == 1) {
      hub.put(1, 0, {.iteration = 1, .tensor = kernels::kReplicaTensor + 1}, {});
      return group->reset();
    }
    at::Tensor values = at::ones({100'000}, at::kFloat);
    const Status summed = (*group)->sum(values);
    ASSERT_FALSE(summed);
    EXPECT_EQ(summed.error().code, ErrorCode::kLostPeer);
    EXPECT_THAT(summed.error().message,
                HasSubstr("the replicas of stage 5 (ranks 0, 1) lost each other: "));
  });
}

TEST(MessengerStore, TellsEveryReplicaWhatOneHasSet) {
  on_all(3, [](const Replicas& replica, MemoryHub&) {
    MessengerStore store(replica);
    const auto value = static_cast<uint8_t>(replica.own);
    store.set(fmt::format("0/{}", replica.own), {value, 7});
    store.set(fmt::format("empty/{}", replica.own), {});
    for (uint8_t other = 0; other < 3; ++other) {
      EXPECT_EQ(store.get(fmt::format("0/{}", other)), (std::vector<uint8_t>{other, 7}));
      EXPECT_TRUE(store.get(fmt::format("empty/{}", other)).empty());
    }
    EXPECT_EQ(store.getNumKeys(), 6);
    EXPECT_FALSE(store.check({"0/0", "0/3"}));
    EXPECT_ANY_THROW(store.wait({"0/3"}, std::chrono::milliseconds(1)));
    EXPECT_FALSE(store.error());
  });
}

TEST(MessengerStore, RefusesAMessageWhoseLengthCannotBe) {
  MemoryHub hub;
  MemoryMessenger messenger(hub, 0);
  MessengerStore store({.ranks = {0, 1}, .own = 0, .messenger = &messenger});
  const link::Tag tag{.iteration = 0, .tensor = kernels::kReplicaTensor};
  hub.put(1, 0, tag, link::Payload(6, std::byte{0xff}));  // a key of 4 GiB in six bytes
  EXPECT_ANY_THROW(store.get("0/1"));
  ASSERT_TRUE(store.error());
  EXPECT_THAT(store.error()->message, HasSubstr("rank 1 told its address in 6 bytes"));
}

}  // namespace
}  // namespace tombolo::train
