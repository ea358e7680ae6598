#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "perform/run/worker_placement.h"

namespace tombolo::run {
namespace {

TEST(WorkerChild, IsToldWhereItsTokenIs) {
  const ChildOptions child = worker_child({.program = "worker", .token_file = "run/token"});
  EXPECT_THAT(child.arguments, testing::IsSupersetOf({"--token-file", "run/token"}));
}

TEST(WorkerChild, IsToldWithWhomItEnds) {
  using testing::Contains;
  const WorkerStart start{.program = "worker", .token_file = "run/token"};
  EXPECT_THAT(worker_child(start).arguments,
              testing::IsSupersetOf({std::string("--child"), fmt::format("{}", getpid())}));
  WorkerStart apart = start;
  apart.child = false;
  EXPECT_THAT(worker_child(apart).arguments, testing::Not(Contains("--child")));
}

TEST(WorkerChild, IsToldWhatItsHostsJobSays) {
  const WorkerStart start{.program = "worker", .token_file = "run/token", .job = "{}"};
  EXPECT_THAT(worker_child(start).arguments, testing::IsSupersetOf({"--job", "{}"}));
}

TEST(WorkerChildDeathTest, WithoutATokenNobodyLetsItIn) {
  EXPECT_DEATH(worker_child({.program = "worker", .rank = 3}), "rank 3 would have no token");
}

}  // namespace
}  // namespace tombolo::run
