#include "predict/network/collective_phase.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

namespace tombolo::network {
namespace {

using graph::CollectiveType;

CollectivePhase phase(CollectiveType kind, const char* algorithm, int32_t members, int64_t bytes) {
  const auto made = CollectivePhase::create({kind, *parse_algorithm(algorithm), members, bytes});
  EXPECT_TRUE(made) << made.error().text();
  return *made;
}

TEST(CollectivePhase, ReadsTheNamesOfAlgorithms) {
  EXPECT_EQ(parse_algorithm("ring"), (AlgorithmChoice{Algorithm::kRing, false, 0}));
  EXPECT_EQ(parse_algorithm("oneRing"), (AlgorithmChoice{Algorithm::kRing, true, 0}));
  EXPECT_EQ(parse_algorithm("direct12"), (AlgorithmChoice{Algorithm::kDirect, false, 12}));
  EXPECT_EQ(parse_algorithm("oneDirect2"), (AlgorithmChoice{Algorithm::kDirect, true, 2}));
  for (const char* name : {"", "one", "Ring", "direct-1", "direct0", "directx", "ring2", "torus"}) {
    EXPECT_FALSE(parse_algorithm(name)) << name;
  }
  for (const char* name : {"ring", "oneRing", "direct", "oneDirect3", "halvingDoubling",
                           "oneHalvingDoubling", "doubleBinaryTree"}) {
    EXPECT_EQ(to_text(*parse_algorithm(name)), name);
  }
}

TEST(CollectivePhase, RingsSendToTheNextMember) {
  const CollectivePhase ring = phase(CollectiveType::kAllReduce, "ring", 4, 1000);
  EXPECT_EQ(ring.messages(), 6);
  EXPECT_EQ(ring.bytes(0), 250);
  EXPECT_EQ(ring.to(3, 5), 0);
  EXPECT_EQ(ring.from(0, 5), 3);
  // The first three received are reduced, the other three only passed on.
  std::vector<bool> reduces;
  for (int64_t i = 0; i <= ring.messages(); ++i) reduces.push_back(ring.reduces(i));
  EXPECT_EQ(reduces, (std::vector<bool>{false, true, true, true, false, false, false}));
  EXPECT_EQ(phase(CollectiveType::kAllToAll, "ring", 4, 1000).messages(), 6);  // 3 + 2 + 1
  EXPECT_EQ(phase(CollectiveType::kAllGather, "ring", 4, 1000).final_bytes(), 4000);
  EXPECT_EQ(phase(CollectiveType::kReduceScatter, "ring", 4, 1000).final_bytes(), 250);
}

TEST(CollectivePhase, DirectSendsToEveryOtherMember) {
  const CollectivePhase direct = phase(CollectiveType::kAllToAll, "direct", 4, 1000);
  EXPECT_EQ(direct.messages(), 3);
  EXPECT_EQ(direct.window(), 3);
  EXPECT_EQ(direct.to(2, 0), 3);
  EXPECT_EQ(direct.to(2, 1), 0);
  EXPECT_EQ(direct.to(2, 2), 1);
  EXPECT_EQ(direct.from(2, 0), 1);
  EXPECT_EQ(phase(CollectiveType::kAllToAll, "direct2", 4, 1000).window(), 2);
  EXPECT_EQ(phase(CollectiveType::kAllReduce, "direct", 4, 1000).gate(), 3);
}

TEST(CollectivePhase, HalvingHalvesAndDoublingDoubles) {
  const CollectivePhase phase8 = phase(CollectiveType::kAllReduce, "halvingDoubling", 8, 800);
  ASSERT_EQ(phase8.messages(), 6);
  const int64_t sizes[] = {400, 200, 100, 100, 200, 400};
  const int32_t partners_of_5[] = {4, 7, 1, 1, 7, 4};  // distances 1, 2, 4, 4, 2, 1
  for (int64_t m = 0; m < 6; ++m) {
    EXPECT_EQ(phase8.bytes(m), sizes[m]);
    EXPECT_EQ(phase8.to(5, m), partners_of_5[m]);
    EXPECT_EQ(phase8.from(5, m), partners_of_5[m]);
  }
  const CollectivePhase gather = phase(CollectiveType::kAllGather, "halvingDoubling", 8, 100);
  EXPECT_EQ(gather.bytes(0), 100);
  EXPECT_EQ(gather.bytes(2), 400);
  EXPECT_EQ(gather.to(0, 0), 4);
}

TEST(CollectivePhase, TreesAreNumberedInOrder) {
  const auto last = CollectivePhase::create(
      {CollectiveType::kAllReduce, *parse_algorithm("doubleBinaryTree"), 8, 100});
  ASSERT_TRUE(last);
  //            7            the root has one child
  //          3
  //       1     5
  //      0 2   4 6
  EXPECT_EQ(last->tree(7).left, 3);
  EXPECT_EQ(last->tree(3).left, 1);
  EXPECT_EQ(last->tree(3).right, 5);
  EXPECT_EQ(last->tree(6).parent, 5);
  EXPECT_TRUE(last->tree(4).leaf());
  PhaseSpec spec = last->spec();
  spec.root_first = true;
  const auto first = CollectivePhase::create(spec);
  EXPECT_EQ(first->tree(0).left, 4);
  EXPECT_EQ(first->tree(4).left, 2);
}

// Every message that is sent is received: from() of one member is to() of the other.
TEST(CollectivePhase, EverySendMeetsItsReceive) {
  for (const char* algorithm : {"ring", "direct", "direct2", "halvingDoubling"}) {
    for (const CollectiveType kind :
         {CollectiveType::kAllReduce, CollectiveType::kAllGather, CollectiveType::kReduceScatter}) {
      for (const bool clockwise : {true, false}) {
        PhaseSpec spec{kind, *parse_algorithm(algorithm), 8, 4096};
        spec.clockwise = clockwise;
        const auto made = CollectivePhase::create(spec);
        ASSERT_TRUE(made);
        for (int64_t j = 0; j < made->messages(); ++j) {
          for (int32_t m = 0; m < 8; ++m) {
            EXPECT_EQ(made->from(made->to(m, j), j), m) << algorithm;
            EXPECT_NE(made->to(m, j), m);
          }
        }
      }
    }
  }
}

TEST(CollectivePhase, RefusesWhatTheAlgorithmCannotDo) {
  EXPECT_FALSE(CollectivePhase::create(
      {CollectiveType::kAllToAll, *parse_algorithm("halvingDoubling"), 8, 8}));
  EXPECT_FALSE(CollectivePhase::create(
      {CollectiveType::kAllReduce, *parse_algorithm("halvingDoubling"), 6, 8}));
  EXPECT_FALSE(CollectivePhase::create(
      {CollectiveType::kAllReduce, *parse_algorithm("doubleBinaryTree"), 6, 8}));
}

// 6 meet at distances 3 and 1, 20 at 10, 5, 2 and 1. Of 10 at distances 5, 2 and 1 the last two
// would meet nobody. ASTRA-sim 518bd513 ends for just these of 2 to 49 members.
TEST(CollectivePhase, AllGathersHalveInPairs) {
  std::vector<int32_t> taken;
  for (int32_t n = 2; n < 50; ++n) {
    const auto made = CollectivePhase::create(
        {CollectiveType::kAllGather, *parse_algorithm("halvingDoubling"), n, 100});
    if (!made) continue;
    taken.push_back(n);
    for (int32_t m = 0; m < n; ++m) {
      std::set<int32_t> slots;
      for (int64_t j = 0; j < made->messages(); ++j) {
        const int32_t other = made->to(m, j);
        EXPECT_EQ(made->to(other, j), m);
        EXPECT_NE(other, m);
        EXPECT_LT(made->slot(m, other), made->slots());
        EXPECT_TRUE(slots.insert(made->slot(m, other)).second) << n;
      }
    }
  }
  EXPECT_EQ(taken, (std::vector<int32_t>{2, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48}));
}

}  // namespace
}  // namespace tombolo::network
