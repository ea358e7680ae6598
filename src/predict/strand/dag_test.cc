#include "predict/strand/dag.h"

#include <gtest/gtest.h>

namespace tombolo::strand {
namespace {

Operator work(const char* name, OperatorSet after, double seconds = 1) {
  return {.name = name, .seconds = seconds, .after = after};
}

// a before b and c, both before d: two orders, and the ideals {}, a, ab, ac, abc, abcd.
Dag diamond() {
  Dag dag;
  dag.add(work("a", 0));
  dag.add(work("b", 0b1));
  dag.add(work("c", 0b1));
  dag.add(work("d", 0b110));
  return dag;
}

TEST(Dag, CountsOrdersAndIdealsOfADiamond) {
  EXPECT_EQ(order_count(diamond()), 2);
  EXPECT_EQ(order_ideals(diamond()),
            (std::vector<OperatorSet>{0, 0b1, 0b11, 0b101, 0b111, 0b1111}));
}

// n operators in any order: n! orders, 2^n ideals. In a row: one order, n + 1 ideals.
TEST(Dag, CountsAntichainsAndChains) {
  Dag apart;
  for (int i = 0; i < 6; ++i) apart.add(work("x", 0));
  EXPECT_EQ(order_count(apart), 720);
  EXPECT_EQ(order_ideals(apart).size(), 64U);
  EXPECT_EQ(order_count(in_order(apart)), 1);
  EXPECT_EQ(order_ideals(in_order(apart)).size(), 7U);
}

TEST(Dag, ChainsLayers) {
  const Dag two = chain(diamond(), 2);
  EXPECT_EQ(two.size(), 8U);
  EXPECT_EQ(two[4].name, "a.2");
  EXPECT_EQ(two[4].after, OperatorSet{0b1000});
  EXPECT_EQ(two[7].after, OperatorSet{0b110'0000});
  EXPECT_EQ(order_count(two), 4);
  EXPECT_EQ(two.seconds(two.all()), 8);
  EXPECT_EQ(two.last_of(two.all()), only(7));
}

TEST(Dag, RefusesWhatCannotBe) {
  Dag dag;
  EXPECT_DEATH(dag.add(work("a", 0b1)), "a waits for an operator that comes later");
  EXPECT_DEATH(dag.add({.name = "AG", .kind = Kind::kTensor}), "AG on the compute stream");
  EXPECT_DEATH(chain(diamond(), 17), "more than 64 operators");
}

}  // namespace
}  // namespace tombolo::strand
