// Cycles, missing dependencies and critical paths, by hand and against a naive search.
#include "spec/chakra/outline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace tombolo::chakra {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Fault = Outline::Fault;

struct Item {
  int64_t id;
  int64_t duration;
  std::vector<int64_t> deps;
};

Outline outline_of(const std::vector<Item>& items) {
  Outline outline;
  for (const Item& item : items) outline.add(item.id, {item.duration}, item.deps, {});
  return outline;
}

// 1 (3 ns) and 2 (5 ns) before 3 (2 ns); 4 (6 ns) alone: 5 + 2 = 7 is the longest.
TEST(Outline, TheCriticalPathIsTheLongest) {
  const auto verdict =
      outline_of({{3, 2, {1, 2}}, {1, 3, {}}, {4, 6, {}}, {2, 5, {}}}).examine().value();
  EXPECT_THAT(verdict.bad, IsEmpty());
  EXPECT_EQ(verdict.critical_path.ns, 7);
  EXPECT_THAT(verdict.critical_nodes, ElementsAre(2, 3));
}

// From 1: 1 -> 2 -> 3 -> 1 closes; from 2 the edge to 9 leads nowhere. The rest is 3, 2, 1: 3 ns.
TEST(Outline, ACycleLosesTheEdgeThatClosesIt) {
  const auto verdict = outline_of({{1, 1, {2}}, {2, 1, {3, 9}}, {3, 1, {1, 3}}}).examine().value();
  EXPECT_THAT(verdict.bad, ElementsAre(Outline::BadEdge{2, 9, Fault::kMissing},
                                       Outline::BadEdge{3, 1, Fault::kCycle},
                                       Outline::BadEdge{3, 3, Fault::kItself}));
  EXPECT_THAT(verdict.cycle, ElementsAre(1, 2, 3));
  EXPECT_EQ(verdict.critical_path.ns, 3);
  EXPECT_THAT(verdict.critical_nodes, ElementsAre(3, 2, 1));
}

TEST(Outline, NothingIsSound) {
  const auto verdict = Outline().examine().value();
  EXPECT_THAT(verdict.bad, IsEmpty());
  EXPECT_EQ(verdict.critical_path.ns, 0);
}

TEST(Outline, IdsAreUniqueAndSumsFit) {
  EXPECT_EQ(outline_of({{7, 0, {}}, {-3, 0, {}}, {7, 0, {}}}).examine().error().message,
            "two nodes have the id 7");
  EXPECT_FALSE(outline_of({{1, INT64_MAX, {}}, {2, 1, {1}}}).examine());
}

// A chain of a million nodes: no recursion.
TEST(Outline, LongChainsAreFine) {
  Outline outline;
  const int64_t count = 1'000'000;
  for (int64_t i = 0; i < count; ++i) {
    outline.add(i, {1}, i + 1 < count ? std::vector<int64_t>{i + 1} : std::vector<int64_t>{}, {});
  }
  EXPECT_EQ(outline.examine().value().critical_path.ns, count);
}

// Longest path that ends with a node, by following every path.
int64_t longest(const std::map<int64_t, Item>& items, int64_t id) {
  int64_t ready = 0;
  for (const int64_t dep : items.at(id).deps) ready = std::max(ready, longest(items, dep));
  return ready + items.at(id).duration;
}

// On random graphs of 8 nodes with sparse ids in any order: the verdict does not hang on the order
// of nodes, what is left has no cycle (else `longest` would not end), and a graph whose edges all
// lead to lower ids loses none.
TEST(Outline, AgreesWithANaiveSearch) {
  Random random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Item> items;
    const bool sound = round % 2 == 0;
    for (int64_t i = 0; i < 8; ++i) {
      Item item{3 * i + 1, static_cast<int64_t>(random.below(10)), {}};
      for (int64_t k = 0; k < (sound ? i : 8); ++k) {
        if (random.below(4) == 0) item.deps.push_back(3 * k + 1);
      }
      items.push_back(item);
    }
    const auto verdict = outline_of(items).examine().value();
    if (sound) {
      EXPECT_THAT(verdict.bad, IsEmpty());
    }
    std::map<int64_t, Item> kept;
    for (const Item& item : items) kept.emplace(item.id, item);
    for (const auto& edge : verdict.bad) std::erase(kept.at(edge.node).deps, edge.dependency);
    int64_t expected = 0;
    for (const auto& [id, item] : kept) expected = std::max(expected, longest(kept, id));
    EXPECT_EQ(verdict.critical_path.ns, expected);
    int64_t along = 0;
    for (const int64_t id : verdict.critical_nodes) along += kept.at(id).duration;
    EXPECT_EQ(along, expected);

    std::swap(items[random.below(8)], items[random.below(8)]);
    EXPECT_EQ(outline_of(items).examine().value().bad, verdict.bad);
  }
}

TEST(Outline, CallersKeepTheirPromises) {
  Outline outline;
  EXPECT_DEATH(outline.add(4, SimDuration{-1}, {}, {}), "node 4 lasts -1 ns");
  EXPECT_DEATH(to_text({4, 5, static_cast<Outline::Fault>(3)}), "fault 3 of node 4");
}

}  // namespace
}  // namespace tombolo::chakra
