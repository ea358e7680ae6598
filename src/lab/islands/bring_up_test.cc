#include "lab/islands/bring_up.h"

#include <gtest/gtest.h>

namespace tombolo::islands {
namespace {

cluster::Cluster two_datacenters() {
  return {.datacenters = {{.name = "oregon"}, {.name = "paris"}},
          .wan = {{.between = {"oregon", "paris"}}}};
}

TEST(Ports, AreInTheDatacentersOfTheirHosts) {
  auto network = NetworkNamespace::create();
  if (!network) GTEST_SKIP() << network.error().text();
  Archipelago archipelago;
  archipelago.islands.push_back({{.name = "paris-0", .datacenter = "paris", .address = "10.77.2.1"},
                                 std::move(*network),
                                 FileDescriptor()});
  const auto ports = ports_of(archipelago, two_datacenters());
  ASSERT_EQ(ports.size(), 1u);
  EXPECT_EQ(ports[0].datacenter, 1);
  EXPECT_EQ(ports[0].name, "paris-0");
  archipelago.islands[0].host.datacenter = "tokyo";
  EXPECT_DEATH(ports_of(archipelago, two_datacenters()), "a host in tokyo, which is no datacenter");
}

TEST(BringUpDeathTest, ThereIsAHost) {
  EXPECT_DEATH(static_cast<void>(bring_up(two_datacenters(), {}, 1)), "islands without a host");
}

}  // namespace
}  // namespace tombolo::islands
