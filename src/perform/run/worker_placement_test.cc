#include "perform/run/worker_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_plan.h"

namespace tombolo::run {
namespace {

using testing::HasSubstr;

cluster::Islands islands() {
  return {.network = "10.77.0.0/16",
          .hosts = {{"oregon-0", "oregon", 0, "10.77.1.1", "/proc/1/fd/10"},
                    {"paris-0", "paris", 0, "10.77.2.1", "/proc/1/fd/11"}}};
}

TEST(Berths, WithoutIslandsAllRanksShareLoopback) {
  const auto placements = worker_placements_of(make_test_plan({.stages = 2}), std::nullopt);
  ASSERT_TRUE(placements);
  ASSERT_EQ(placements->size(), 2u);
  EXPECT_EQ((*placements)[1].at.listen, "127.0.0.1");
  EXPECT_EQ((*placements)[1].network_namespace, "");
  EXPECT_EQ(*own_address(std::nullopt), "127.0.0.1");
}

TEST(Berths, InIslandsARankLiesOnTheHostOfItsNode) {
  const auto placements = worker_placements_of(make_test_plan({.stages = 2}), islands());
  ASSERT_TRUE(placements) << placements.error().text();
  EXPECT_EQ((*placements)[0].at.listen, "10.77.1.1");
  EXPECT_EQ((*placements)[1].at.listen, "10.77.2.1");
  EXPECT_EQ((*placements)[1].network_namespace, "/proc/1/fd/11");
}

// Tokyo has a link to paris only.
TEST(Berths, EveryRankMustReachTheLauncher) {
  const plan::Plan plan = make_test_plan({.stages = 3});
  cluster::Islands three = islands();
  three.hosts.push_back({"tokyo-0", "tokyo", 0, "10.77.3.1", "/proc/1/fd/12"});
  EXPECT_TRUE(check_reach(plan, three, "10.77.2.1"));
  EXPECT_TRUE(check_reach(plan, three, "127.0.0.1"));
  const Status status = check_reach(plan, three, "10.77.1.1");
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().text(),
              HasSubstr("rank 2 in tokyo could not reach the launcher in oregon"));
  EXPECT_EQ(status.error().exit_code(), 2);
}

TEST(Berths, IslandsOfAnotherPlanAreRefusedByName) {
  const auto refusal = [](const plan::Plan& plan) {
    const auto placements = worker_placements_of(plan, islands());
    return placements ? "welcome" : placements.error().message;
  };
  EXPECT_THAT(refusal(make_test_plan({.stages = 3})), HasSubstr("rank 2 sits on node 0 of tokyo"));
  plan::Plan plan = make_test_plan({.stages = 2});
  plan.run.byte_scale = 20;
  EXPECT_THAT(refusal(plan), HasSubstr("byte_scale = 1, the Plan has 20"));
  plan = make_test_plan({.stages = 2});
  plan.cluster.wan[0].connections = 16;
  EXPECT_EQ(refusal(plan), "welcome");
  plan.cluster.wan[0].connections = 17;
  EXPECT_THAT(refusal(plan), HasSubstr("at most 16 per pair of ranks"));
}

TEST(Berths, OutsideOfAllHostsThereIsNoAddress) {
  cluster::Islands elsewhere = islands();
  for (cluster::Host& host : elsewhere.hosts) host.address = "192.0.2.1";  // RFC 5737: no host's
  const auto address = own_address(elsewhere);
  ASSERT_FALSE(address);
  EXPECT_THAT(address.error().text(), HasSubstr("runs on none of its hosts"));
  elsewhere.hosts[1].address = "127.0.0.1";
  EXPECT_EQ(*own_address(elsewhere), "127.0.0.1");
}

}  // namespace
}  // namespace tombolo::run
