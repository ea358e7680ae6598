#include "lab/islands/layout.h"

#include <gtest/gtest.h>

namespace tombolo::islands {
namespace {

cluster::Cluster three_nodes() {
  return {.datacenters = {{.name = "oregon", .nodes = 2}, {.name = "paris", .nodes = 1}},
          .wan = {{.between = {"oregon", "paris"}}}};
}

TEST(Layout, GivesEveryNodeANameAndAnAddress) {
  const auto hosts = lay_out(three_nodes());
  ASSERT_TRUE(hosts) << hosts.error().text();
  ASSERT_EQ(hosts->size(), 3u);
  EXPECT_EQ((*hosts)[1].name, "oregon-1");
  EXPECT_EQ((*hosts)[1].address, "10.77.1.2");  // datacenter 0 is prefix 1, node 1 ends with 2
  EXPECT_EQ((*hosts)[2].name, "paris-0");
  EXPECT_EQ((*hosts)[2].address, "10.77.2.1");
}

TEST(Layout, ReadsAnAddressAsANumber) {
  // 10 * 2^24 + 77 * 2^16 + 2 * 2^8 + 1
  EXPECT_EQ(address_number(address_of(1, 0)), 167772160u + 5046272u + 512u + 1u);
}

TEST(Layout, RefusesMoreHostsThanAMachineHolds) {
  cluster::Cluster cluster = three_nodes();
  cluster.datacenters[0].nodes = 63;
  EXPECT_TRUE(lay_out(cluster));
  cluster.datacenters[0].nodes = 64;
  const auto hosts = lay_out(cluster);
  ASSERT_FALSE(hosts);
  EXPECT_EQ(hosts.error().exit_code(), 2);
  EXPECT_NE(hosts.error().text().find("65 nodes"), std::string::npos) << hosts.error().text();
}

TEST(Layout, RefusesADatacenterThatNoLinkReaches) {
  cluster::Cluster cluster = three_nodes();
  cluster.datacenters.push_back({.name = "tokyo"});
  const auto hosts = lay_out(cluster);
  ASSERT_FALSE(hosts);
  EXPECT_NE(hosts.error().text().find("tokyo"), std::string::npos) << hosts.error().text();
}

TEST(Layout, NeedsNoLinkForOneDatacenter) {
  EXPECT_TRUE(lay_out({.datacenters = {{.name = "oregon", .nodes = 4}}}));
}

TEST(Layout, RefusesANameThatIsNoHostName) {
  for (const char* name : {"us west", "../etc", "-x", "a/b"}) {
    EXPECT_FALSE(lay_out({.datacenters = {{.name = name}}})) << name;
  }
}

TEST(LayoutDeathTest, AddressesHaveRoomForSoMany) {
  EXPECT_EQ(address_of(253, 253), "10.77.254.254");
  EXPECT_DEATH(address_of(0, 254), "node 254 has no address");
  EXPECT_DEATH(address_of(254, 0), "datacenter 254 has no prefix");
  EXPECT_DEATH(prefix_of(-1), "datacenter -1 has no prefix");
  EXPECT_DEATH(address_number("paris"), "paris is no address");
}

}  // namespace
}  // namespace tombolo::islands
