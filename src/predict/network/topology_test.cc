#include "predict/network/topology.h"

#include <gtest/gtest.h>

namespace tombolo::network {
namespace {

Topology torus() {
  return *Topology::create({{Block::kRing, 4, 50, 500}, {Block::kSwitch, 3, 25, 100}});
}

TEST(Topology, NumbersTheFirstDimensionFastest) {
  const Topology net = torus();
  EXPECT_EQ(net.npus(), 12);
  EXPECT_EQ(net.stride(0), 1);
  EXPECT_EQ(net.stride(1), 4);
  EXPECT_EQ(net.coordinate(7, 0), 3);  // 7 = 3 + 4 * 1
  EXPECT_EQ(net.coordinate(7, 1), 1);
  EXPECT_EQ(net.first_difference(1, 3), 0u);
  EXPECT_EQ(net.first_difference(1, 9), 1u);  // same column
  EXPECT_EQ(net.text(), "Ring(4) x Switch(3)");
}

TEST(Topology, TakesTheShorterWayRoundARing) {
  const Topology net = torus();
  EXPECT_EQ(net.hops(0, 0, 1), 1);
  EXPECT_EQ(net.hops(0, 0, 3), 1);
  EXPECT_EQ(net.hops(0, 3, 1), 2);
  EXPECT_EQ(net.hops(1, 0, 2), 2);  // to the switch and back
}

TEST(Topology, CutsOffFractionsOfANanosecond) {
  const Topology net = torus();
  // 50 * 2^30 / 10^9 = 53.687 bytes a ns: 1000 bytes take 18.63 ns.
  EXPECT_EQ(net.delay(0, 1, 1000).ns, 518);
  EXPECT_EQ(net.serialization(0, 1000).ns, 18);
  // 26.844 bytes a ns: 37.25 ns, and two hops of 100.
  EXPECT_EQ(net.delay(1, 9, 1000).ns, 237);
  // Rank 0 to rank 5 differ in both dimensions: the first counts.
  EXPECT_EQ(net.delay(0, 5, 1000).ns, 518);
}

TEST(Topology, ReadsWhatAstraSimReads) {
  const auto net = parse_topology(
      "topology: [ Ring, FullyConnected ]\nnpus_count: [ 4, 2 ]  # eight\nbandwidth: [ 50.0, 25 ]\n"
      "latency:\n  - 500\n  - 0\n",
      "network.yml");
  ASSERT_TRUE(net) << net.error().text();
  EXPECT_EQ(net->npus(), 8);
  EXPECT_EQ(net->dimension(1).bandwidth, 25);
}

TEST(Topology, ReadsAWan) {
  const auto net = parse_topology(
      "topology: [ Ring, WAN ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50, 0.6 ]\n"
      "latency: [ 500, 20000000 ]\nflow-bandwidth: 0.0625\n",
      "network.yml");
  ASSERT_TRUE(net) << net.error().text();
  EXPECT_TRUE(net->has_wan());
  EXPECT_EQ(net->dimension(1).flow_bandwidth, 0.0625);
  EXPECT_EQ(net->text(), "Ring(4) x WAN(2)");
  const auto first = Topology::create({{Block::kWan, 2}, {Block::kRing, 4}});
  ASSERT_FALSE(first);
  EXPECT_NE(first.error().text().find("must be the last dimension"), std::string::npos);
}

TEST(Topology, SaysWhatIsWrongWithAFile) {
  const std::string good =
      "topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n";
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const auto net = parse_topology(text, "network.yml");
    EXPECT_FALSE(net) << text;
    return net ? "" : net.error().text();
  };
  EXPECT_NE(error("Ring", "Torus").find("topology[0] = Torus"), std::string::npos);
  EXPECT_NE(error("[ 8 ]", "[ 8, 2 ]").find("npus_count has 2 entries, topology has 1"),
            std::string::npos);
  EXPECT_NE(error("[ 8 ]", "[ eight ]").find("network.yml:2: npus_count[0] = eight"),
            std::string::npos);
  EXPECT_NE(error("[ 8 ]", "[ 0 ]").find("npus_count[0] = 0"), std::string::npos);
  EXPECT_NE(error("50.0", "-1").find("bandwidth[0] = -1"), std::string::npos);
  EXPECT_NE(error("500.0", ".nan").find("latency[0]"), std::string::npos);
  EXPECT_NE(error("latency", "latencies").find("unknown key latencies"), std::string::npos);
  EXPECT_NE(error("[ Ring ]", "Ring").find("wanted a list"), std::string::npos);
  EXPECT_NE(error("[ Ring ]", "[ Ring").find("network.yml:"), std::string::npos);
  // A WAN is the last dimension, and the only one with a bandwidth of flows.
  EXPECT_NE(error("[ 500.0 ]", "[ 500.0 ]\nflow-bandwidth: 1").find("belongs to a WAN"),
            std::string::npos);
  EXPECT_NE(error("Ring ]", "WAN ]\nflow-bandwidth: -1").find("must not be negative"),
            std::string::npos);
  EXPECT_NE(error("Ring ]", "WAN ]\nflow-bandwidth: [ 1 ]").find("network.yml:2: flow-bandwidth"),
            std::string::npos);
  EXPECT_FALSE(parse_topology("", "network.yml"));
  EXPECT_FALSE(parse_topology("[[[[[[[[", "network.yml"));
}

}  // namespace
}  // namespace tombolo::network
