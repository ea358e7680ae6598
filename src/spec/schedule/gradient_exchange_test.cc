#include "spec/schedule/gradient_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/random.h"
#include "spec/plan/job.h"

namespace tombolo::schedule {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

using Round = std::vector<ExchangeMessage>;

// One replica's elements, each a sum as text: "2" is its own addend, "(0+2)" a sum of two, whose
// order in the text is that of the text, as x + y and y + x are the same number.
using Sums = std::vector<std::string>;

std::string sum_of(const std::string& a, const std::string& b) {
  return a < b ? fmt::format("({}+{})", a, b) : fmt::format("({}+{})", b, a);
}

// As the header says: all replicas send first, then add what comes in the order of the list.
std::vector<Sums> perform(const GradientExchange& exchange, size_t replicas, int64_t elements) {
  std::vector<Sums> held;
  for (size_t r = 0; r < replicas; ++r) {
    held.emplace_back(static_cast<size_t>(elements), fmt::format("{}", r));
  }
  for (const Round& round : exchange.rounds) {
    const std::vector<Sums> before = held;
    for (const ExchangeMessage& m : round) {
      for (auto e = static_cast<size_t>(m.first); e < static_cast<size_t>(m.first + m.count); ++e) {
        const std::string& sent = before[static_cast<size_t>(m.from)][e];
        std::string& own = held[static_cast<size_t>(m.to)][e];
        own = m.adds ? sum_of(own, sent) : sent;
      }
    }
  }
  return held;
}

std::map<char, int> addends_of(const std::string& sum) {
  std::map<char, int> count;
  for (const char c : sum) {
    if (c >= '0' && c <= '9') ++count[c];
  }
  return count;
}

// Elements that a replica sends within its datacenter and out of it.
struct Sent {
  int64_t inside = 0, across = 0;
};
std::vector<Sent> sent_by(const GradientExchange& exchange, const std::vector<int32_t>& where) {
  std::vector<Sent> sent(where.size());
  for (const Round& round : exchange.rounds) {
    for (const ExchangeMessage& m : round) {
      const bool stays = where[static_cast<size_t>(m.from)] == where[static_cast<size_t>(m.to)];
      Sent& by = sent[static_cast<size_t>(m.from)];
      (stays ? by.inside : by.across) += m.count;
    }
  }
  return sent;
}

TEST(GradientExchange, OfTwoReplicasApartIsOneMessageEachWay) {
  EXPECT_THAT(gradient_exchange(std::vector{0, 1}, 10).rounds,
              ElementsAre(Round{{0, 1, 0, 10, true}, {1, 0, 0, 10, true}}));
}

TEST(GradientExchange, OfOneReplicaIsNothing) {
  EXPECT_THAT(gradient_exchange(std::vector{0}, 10).rounds, SizeIs(0));
  EXPECT_THAT(gradient_exchange(std::vector{0, 1}, 0).rounds, SizeIs(0));
}

// One replica in datacenter 0 and two in 1, which halve the elements: each exchanges its half.
TEST(GradientExchange, UnequalNumbersAllTakePart) {
  EXPECT_THAT(
      gradient_exchange(std::vector{0, 1, 1}, 10).rounds,
      ElementsAre(
          Round{{2, 1, 0, 5, true}, {1, 2, 5, 5, true}},
          Round{{0, 1, 0, 5, true}, {1, 0, 0, 5, true}, {0, 2, 5, 5, true}, {2, 0, 5, 5, true}},
          Round{{1, 2, 0, 5, false}, {2, 1, 5, 5, false}}));
}

TEST(GradientExchange, OfThreeDatacentersTakesTwoRoundsOrARing) {
  const std::vector<int32_t> apart{0, 1, 2};
  const auto direct = gradient_exchange(apart, 9, Across::kDirect).rounds;
  ASSERT_THAT(direct, SizeIs(2));
  // Replica 0 owns 0..2: it gets them from 1, then from 2.
  EXPECT_THAT(direct[0], testing::Contains(ExchangeMessage{1, 0, 0, 3, true}));
  EXPECT_THAT(direct[0], testing::Contains(ExchangeMessage{2, 0, 0, 3, true}));
  EXPECT_THAT(direct[1], testing::Contains(ExchangeMessage{0, 2, 0, 3, false}));
  const auto ring = gradient_exchange(apart, 9, Across::kRing).rounds;
  EXPECT_THAT(ring, SizeIs(4));
  EXPECT_THAT(ring[0],
              ElementsAre(ExchangeMessage{0, 1, 0, 3, true}, ExchangeMessage{1, 2, 3, 3, true},
                          ExchangeMessage{2, 0, 6, 3, true}));
}

std::vector<int32_t> any_layout(Random& random) {
  std::vector<int32_t> where(1 + random.below(9));
  const uint64_t datacenters = 1 + random.below(4);
  for (int32_t& each : where) each = static_cast<int32_t>(random.below(datacenters));
  return where;
}

TEST(GradientExchange, AllHoldEveryAddendOnceInOneOrder) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const std::vector<int32_t> where = any_layout(random);
    const auto elements = static_cast<int64_t>(random.below(40));
    const Across across = random.below(2) == 0 ? Across::kDirect : Across::kRing;
    SCOPED_TRACE(fmt::format("seed {}: {} in {}, {}", seed, elements, fmt::join(where, " "),
                             across == Across::kRing ? "ring" : "direct"));
    const GradientExchange exchange = gradient_exchange(where, elements, across);
    for (const Round& round : exchange.rounds) {
      EXPECT_FALSE(round.empty());
      for (const ExchangeMessage& m : round) {
        EXPECT_GE(m.count, 1);
        EXPECT_NE(m.from, m.to);
      }
    }
    const std::vector<Sums> held = perform(exchange, where.size(), elements);
    for (size_t e = 0; e < static_cast<size_t>(elements); ++e) {
      for (const Sums& replica : held) EXPECT_EQ(replica[e], held[0][e]) << e;
      const std::map<char, int> addends = addends_of(held[0][e]);
      EXPECT_EQ(addends.size(), where.size()) << held[0][e];
      for (const auto& [addend, times] : addends) EXPECT_EQ(times, 1) << held[0][e];
    }
    if (HasFailure()) return;
  }
}

// The closed forms of the header, with elements that divide.
TEST(GradientExchange, SendsNoMoreThanItMust) {
  for (const int64_t datacenters : {1, 2, 3, 4}) {
    for (const int64_t replicas : {1, 2, 3, 5}) {
      std::vector<int32_t> where;
      for (int64_t i = 0; i < datacenters * replicas; ++i) {
        where.push_back(static_cast<int32_t>(i % datacenters));
      }
      const int64_t elements = 60 * 12;
      const int64_t inside = 2 * (replicas - 1) * elements / replicas;
      const int64_t across = datacenters == 2
                                 ? elements / replicas
                                 : 2 * (datacenters - 1) * elements / datacenters / replicas;
      for (const Across way : {Across::kDirect, Across::kRing}) {
        for (const Sent& sent : sent_by(gradient_exchange(where, elements, way), where)) {
          EXPECT_EQ(sent.inside, inside) << datacenters << " x " << replicas;
          EXPECT_EQ(sent.across, across) << datacenters << " x " << replicas;
        }
      }
    }
  }
}

// Whatever the numbers of replicas, a datacenter sends all elements once to the other.
TEST(GradientExchange, TwoDatacentersSendEverythingOnce) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    std::vector<int32_t> where{0, 1};
    for (uint64_t more = random.below(8); more > 0; --more) {
      where.push_back(static_cast<int32_t>(random.below(2)));
    }
    std::array<int64_t, 2> across{};
    const std::vector<Sent> sent = sent_by(gradient_exchange(where, 1000, Across::kDirect), where);
    for (size_t r = 0; r < where.size(); ++r) {
      across[static_cast<size_t>(where[r])] += sent[r].across;
    }
    EXPECT_THAT(across, ElementsAre(1000, 1000)) << seed;
  }
}

// Four datacenters with one pipeline each; the link between the first and the third is slow. A
// layer of 64 has 49,280 parameters in its 4 layers of gradients, 4 bytes each: 0.2 MB and more.
plan::Plan square(const std::string& diagonal) {
  std::string text =
      "[model]\nlayers = 4\nhidden = 64\nheads = 8\nvocabulary = 256\nsequence = 32\n"
      "[training]\nglobal_batch = 4\n[parallelism]\npipeline = 1\ndata = 4\n"
      "datacenter_per_replica = [\"d0\", \"d1\", \"d2\", \"d3\"]\n";
  for (int d = 0; d < 4; ++d) {
    text += fmt::format("[[cluster.datacenter]]\nname = \"d{}\"\ndevice = \"h100-80g\"\n", d);
    for (int other = 0; other < d; ++other) {
      text += fmt::format(
          "[[cluster.wan]]\nbetween = [\"d{}\", \"d{}\"]\none_way_latency = \"1 ms\"\n"
          "node_pair_limit = \"{}\"\n",
          other, d, d - other == 2 ? diagonal : "1 Gbps");
    }
  }
  const auto plan = plan::parse_job(text, "job.toml").and_then(plan::lay_out);
  CHECK(plan, "{}", plan.error().text());
  return *plan;
}

// Two of each datacenter share out the optimizer's state: each sums its half inside and across, in fp32,
// and hands on the half of the new parameters in bf16. Alone in its datacenter a replica hands on nothing.
TEST(GradientExchange, HandsOnParametersWhereTheOptimizerIsSharded) {
  plan::Plan plan = square("1 Gbps");
  plan.parallelism.zero = 1;
  plan.training.stack = "megatron";  // sums gradients in fp32
  const auto bytes = [&](const std::vector<int32_t>& where) {
    double inside = 0, across = 0;
    for (const Round& round : gradient_exchange(where, 100, Across::kDirect, true).rounds) {
      for (const ExchangeMessage& m : round) {
        const bool crosses = where[static_cast<size_t>(m.from)] != where[static_cast<size_t>(m.to)];
        EXPECT_FALSE(crosses && m.parameters);
        (crosses ? across : inside) += bytes_of(plan, m);
      }
    }
    return std::pair(inside, across);
  };
  EXPECT_EQ(bytes({0, 0, 1, 1}), std::pair(4 * 50 * (4.0 + 2.0), 4 * 50 * 4.0));
  EXPECT_EQ(bytes({0, 1}), std::pair(0.0, 2 * 100 * 4.0));
}

TEST(GradientExchange, GoesAroundASlowLink) {
  EXPECT_EQ(faster_across(square("1 Gbps"), 0), Across::kDirect);
  EXPECT_EQ(faster_across(square("1 Mbps"), 0), Across::kRing);
  EXPECT_THAT(gradient_exchange(square("1 Mbps"), 0, 100).rounds, SizeIs(6));
}

}  // namespace
}  // namespace tombolo::schedule
