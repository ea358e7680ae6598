#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perform/launch/berths.h"

namespace tombolo::launch {
namespace {

TEST(WorkerChild, IsToldWhereItsTokenIs) {
  const ChildOptions child = worker_child({.program = "worker", .token_file = "run/token"});
  EXPECT_THAT(child.arguments, testing::IsSupersetOf({"--token-file", "run/token"}));
}

TEST(WorkerChildDeathTest, WithoutATokenNobodyLetsItIn) {
  EXPECT_DEATH(worker_child({.program = "worker", .rank = 3}), "rank 3 would have no token");
}

}  // namespace
}  // namespace tombolo::launch
