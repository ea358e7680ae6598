#include "perform/exchange/group_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <numeric>

#include "base/random.h"

namespace tombolo::exchange {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// Replicas with numbers of their own, and what is on its way between them.
class Sums {
 public:
  Sums(const std::vector<int32_t>& datacenters, int64_t elements, schedule::Across across,
       uint64_t seed, size_t bytes_of_number = sizeof(float))
      : random_(seed) {
    const auto exchange = schedule::gradient_exchange(datacenters, elements, across);
    ranks_.resize(datacenters.size());
    std::iota(ranks_.begin(), ranks_.end(), 100);
    values_.resize(datacenters.size());
    for (auto& own : values_) {
      for (int64_t i = 0; i < elements; ++i) own.push_back(static_cast<float>(random_.normal()));
    }
    given_ = values_;
    for (size_t r = 0; r < values_.size(); ++r)
      sums_.emplace_back(exchange, ranks_, r, kFirst, values_[r], nullptr, bytes_of_number);
  }

  // Messages are delivered to replicas in a random order; the order of arrival must not matter.
  void run() {
    for (size_t r = 0; r < sums_.size(); ++r) send(r, *sums_[r].begin());
    size_t done = 0;
    while (done < sums_.size()) {
      done = 0;
      const size_t r = random_.below(sums_.size());
      for (const GroupSum& each : sums_) done += each.done();
      if (!sums_[r].done()) take(r);
    }
  }

  double expected(size_t element) const {
    double sum = 0;
    for (const auto& own : given_) sum += static_cast<double>(own[element]);
    return sum;
  }
  const std::vector<std::vector<float>>& values() const { return values_; }
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr link::Tag kFirst{7, kernels::kGroupTensor};
  void send(size_t from, std::vector<GroupSum::Parcel> parcels) {
    for (auto& each : parcels) {
      bytes_ += std::ssize(each.payload);
      on_its_way_[{ranks_[from], each.to, each.tag}].push_back(std::move(each.payload));
    }
  }
  void take(size_t r) {
    const auto wanted = sums_[r].wanted();
    auto& queue = on_its_way_[{wanted.peer, ranks_[r], wanted.tag}];
    if (queue.empty()) return;
    link::Received message{.payload = std::move(queue.front())};
    queue.pop_front();
    auto sent = sums_[r].take(message);
    ASSERT_TRUE(sent) << sent.error().text();
    send(r, std::move(*sent));
  }

  Random random_;
  int64_t bytes_ = 0;  // sent by all
  std::vector<int32_t> ranks_;
  std::vector<std::vector<float>> values_, given_;
  std::vector<GroupSum> sums_;
  std::map<std::tuple<int32_t, int32_t, link::Tag>, std::deque<link::Payload>> on_its_way_;
};

// Layouts of one to four datacenters with one to three replicas each, directly and around a ring.
TEST(GroupSum, AllReplicasEndWithTheSameBitsOfTheSum) {
  Random random(5);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<int32_t> datacenters;
    const auto places = 1 + static_cast<int32_t>(random.below(4));
    for (int32_t d = 0; d < places; ++d)
      datacenters.insert(datacenters.end(), 1 + random.below(3), d);
    if (datacenters.size() < 2) datacenters.push_back(0);
    const auto elements = static_cast<int64_t>(random.below(40));
    const auto across = random.below(2) == 0 ? schedule::Across::kDirect : schedule::Across::kRing;
    Sums first(datacenters, elements, across, seed), again(datacenters, elements, across, seed);
    first.run();
    again.run();
    for (size_t i = 0; i < static_cast<size_t>(elements); ++i)
      EXPECT_NEAR(first.values()[0][i], first.expected(i), 1e-5) << "seed " << seed;
    EXPECT_THAT(first.values(), Each(first.values()[0])) << "seed " << seed;
    EXPECT_EQ(first.values()[0], again.values()[0]) << "seed " << seed;
  }
}

// Two replicas in each of two datacenters, 40 numbers: inside each sends 2 x 20 and over the WAN 20, of
// 2 bytes. What was rounded on its way is so where it came from, too.
TEST(GroupSum, NumbersTravelAsBf16) {
  for (const auto across : {schedule::Across::kDirect, schedule::Across::kRing}) {
    Sums sums({0, 0, 1, 1}, 40, across, 3, sizeof(uint16_t));
    sums.run();
    EXPECT_THAT(sums.values(), Each(sums.values()[0]));
    EXPECT_EQ(sums.bytes(), 4 * 3 * 20 * 2);
    for (size_t i = 0; i < 40; ++i) EXPECT_NEAR(sums.values()[0][i], sums.expected(i), 0.05);
  }
  Sums three({0, 1, 2}, 39, schedule::Across::kRing, 4, sizeof(uint16_t));
  three.run();
  EXPECT_THAT(three.values(), Each(three.values()[0]));
}

TEST(GroupSum, OneThatIsAloneIsDoneAtOnce) {
  std::vector<float> values = {1, 2};
  const int32_t rank = 3;
  GroupSum sum(schedule::gradient_exchange(std::vector<int32_t>{0}, 2), {&rank, 1}, 0, {}, values);
  EXPECT_TRUE(sum.begin()->empty());
  EXPECT_TRUE(sum.done());
}

TEST(GroupSum, AMessageOfAnotherLengthIsRefused) {
  std::vector<float> values = {1, 2, 3};
  const std::vector<int32_t> ranks = {3, 5};
  GroupSum sum(schedule::gradient_exchange(std::vector<int32_t>{0, 1}, 3), ranks, 1,
               {2, kernels::group_tensor(4, 1, 0)}, values);
  const auto sent = *sum.begin();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].to, 3);
  EXPECT_EQ(sent[0].tag, (link::Tag{2, kernels::group_tensor(4, 1, 0)}));
  EXPECT_EQ(sent[0].payload.size(), 12u);
  EXPECT_EQ(sum.wanted().peer, 3);
  const auto taken = sum.take({.payload = link::Payload(8)});
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().text(),
              HasSubstr("rank 3 sent 8 bytes of gradients where 12 are summed"));
}

}  // namespace
}  // namespace tombolo::exchange
