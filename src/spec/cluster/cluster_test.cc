#include "spec/cluster/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/toml.h"
#include "support/folder_test.h"

namespace tombolo::cluster {
namespace {

using ::testing::HasSubstr;

// Atlas (Palak et al. 2024), table 1: one TCP connection at four one-way latencies. A 3 MB window
// over the round trip gives 12 Mbit / latency: 1200, 600, 400 and 300 Mbps.
TEST(WanFlow, EqualsTableOneOfAtlas) {
  const std::pair<Seconds, double> rows[] = {
      {10_ms, 1220}, {20_ms, 600}, {30_ms, 396}, {40_ms, 293}};
  for (const auto& [latency, published] : rows) {
    WanLink link;
    link.one_way_latency = latency;
    link.node_pair_limit = 5_Gbps;
    link.tcp_window = 3_MB;
    const double ours = flow_rate(link) / 1_Mbps;
    EXPECT_NEAR(ours / published, 1, 0.024) << format(latency) << ": " << ours;
  }
}

// 3 MB / 40 ms is 75 MB/s per connection. Nine have 675 MB/s, but the pair has 625 (5 Gbps), and a
// path of 1 Gbps has 125.
TEST(WanFlow, IsTheTightestOfWindowPairAndPath) {
  WanLink link;
  link.one_way_latency = 20_ms;
  link.node_pair_limit = 5_Gbps;
  link.tcp_window = 3_MB;
  link.connections = 8;
  EXPECT_NEAR(flow_rate(link).value, 600e6, 1);
  link.connections = 9;
  EXPECT_EQ(flow_rate(link), 5_Gbps);
  link.path_limit = 1_Gbps;
  EXPECT_EQ(flow_rate(link), 1_Gbps);
  link.path_limit.reset();
  link.tcp_window.reset();
  link.connections = 1;
  EXPECT_EQ(flow_rate(link), 5_Gbps);  // windows large enough
}

// "auto": the transport chooses, among as many as a link can have; a Plan keeps the word.
TEST(WanConnections, AreANumberOrChosen) {
  const auto read = [](const std::string& connections) {
    const std::string text =
        "[[datacenter]]\nname = \"a\"\ndevice = \"cpu\"\n[[datacenter]]\nname = \"b\"\n"
        "device = \"cpu\"\n[[wan]]\nbetween = [\"a\", \"b\"]\none_way_latency = \"20 ms\"\n"
        "node_pair_limit = \"5 Gbps\"\n" +
        connections;
    return read_cluster(*parse_toml(text, "x.toml"), "x.toml", "");
  };
  const auto tuned = read("connections = \"auto\"");
  ASSERT_TRUE(tuned) << tuned.error().text();
  EXPECT_TRUE(tuned->wan[0].connections_tuned);
  EXPECT_EQ(tuned->wan[0].connections, kConnectionsTuned);
  EXPECT_EQ(*write_fields(*tuned).find("wan")->get<Value::Array>()->at(0).find("connections"),
            Value("auto"));
  const auto fixed = read("connections = 4\ncongestion_control = \"bbr\"");
  ASSERT_TRUE(fixed) << fixed.error().text();
  EXPECT_EQ(fixed->wan[0].connections, 4);
  EXPECT_FALSE(fixed->wan[0].connections_tuned);
  for (const char* wrong : {"connections = \"many\"", "connections = 0", "connections = 2.5",
                            "congestion_control = \"a b\""}) {
    const auto refused = read(wrong);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_EQ(refused.error().code, ErrorCode::kUnusable);
    EXPECT_THAT(refused.error().message, HasSubstr("x.toml:11: wan[0].con")) << wrong;
  }
}

TEST(Catalog, LeavesAReserveToTheFramework) {
  EXPECT_EQ(catalog_device("a100-80g")->memory, 78_GiB);
  EXPECT_EQ(catalog_device("a100-80g")->peak, 312_TFLOPS);
  const Device emulated = *catalog_device("emulated:a100-80g");
  EXPECT_EQ(emulated.kind, DeviceKind::kEmulated);
  EXPECT_EQ(emulated.peak, 312_TFLOPS);
  EXPECT_EQ(catalog_device("cpu")->kind, DeviceKind::kCpu);
}

TEST(Catalog, UnderstandsWhatPeopleWrite) {
  const std::pair<const char*, const char*> spellings[] = {
      {"A100", "a100-80g"},          {"a100_80gb", "a100-80g"},
      {"a100_40gb", "a100-40g"},     {"H100-80GB", "h100-80g"},
      {"h100", "h100-80g"},          {"NVIDIA H200", "h200"},
      {"B200-180GB", "b200"},        {"GB300", "gb300"},
      {"V100-16GB", "v100-16g"},     {"emulated:A40", "emulated:a40-48g"},
      {"RTX 4090", "rtx-4090"},      {"NVIDIA GeForce RTX 3090", "rtx-3090"},
      {"rtx_2080ti", "rtx-2080-ti"}, {"RTX-5090-32GB", "rtx-5090"}};
  for (const auto& [written, name] : spellings) {
    const Result<Device> device = catalog_device(written);
    ASSERT_TRUE(device) << written;
    EXPECT_EQ(device->name, name) << written;
  }
  // Sizes that a family does not have are no spelling of it.
  EXPECT_FALSE(catalog_device("a100-60g"));
  EXPECT_FALSE(catalog_device("h100-pcie"));
  for (const std::string& name : catalog_names()) EXPECT_EQ(catalog_device(name)->name, name);
}

TEST(Catalog, KnowsWhoCountsInEightBits) {
  EXPECT_EQ(catalog_device("h100-80g")->peak_fp8, 1979_TFLOPS);
  EXPECT_EQ(catalog_device("gb200")->peak_fp8, 5000_TFLOPS);
  EXPECT_EQ(catalog_device("a100-80g")->peak_fp8, std::nullopt);
  EXPECT_EQ(catalog_device("rtx-4090")->peak_fp8, 330.3_TFLOPS);
}

TEST(Catalog, KnowsWhoMultipliesInBf16) {
  EXPECT_FALSE(multiplies_bf16(*catalog_device("v100-32g")));
  EXPECT_FALSE(multiplies_bf16(*catalog_device("emulated:RTX 2080 Ti")));
  EXPECT_TRUE(multiplies_bf16(*catalog_device("rtx-3090")));
}

constexpr const char* kTwo = R"(
[[datacenter]]
name = "oregon"
device = "a100-80g"
nodes = 2
devices_per_node = 8
[[datacenter]]
name = "paris"
device = { name = "x", peak = "1 TFLOPS", memory = "1 GB", memory_bandwidth = "1 GBps" }
[[wan]]
between = ["oregon", "paris"]
one_way_latency = "40 ms"
node_pair_limit = "5 Gbps"
)";

Result<Cluster> read(const std::string& text) {
  return read_cluster(*parse_toml(text, "c.toml"), "c.toml", "");
}

// kTwo with one line replaced.
std::string complaint(const std::string& from, const std::string& to) {
  std::string text = kTwo;
  text.replace(text.find(from), from.size(), to);
  const Result<Cluster> cluster = read(text);
  return cluster ? "accepted" : cluster.error().text();
}

// A file that does not say how far the fast fabric goes means its nodes; an NVL72 says so.
TEST(ClusterFile, AScaleUpDomainIsANodeUnlessItSays) {
  EXPECT_EQ(read(kTwo)->datacenters[0].scale_up.domain, 8);
  EXPECT_EQ(read(kTwo)->datacenters[1].scale_up.domain, 1);
  const auto domain = [](const std::string& node) {
    std::string text = kTwo;
    const std::string from = "devices_per_node = 8";
    text.replace(text.find(from), from.size(), node);
    const Result<Cluster> cluster = read(text);
    EXPECT_TRUE(cluster) << cluster.error().text();
    // As a Plan carries it: resolved.
    EXPECT_EQ(*read_fields<Cluster>(write_fields(*cluster), "plan.json"), *cluster);
    return cluster->datacenters[0].scale_up.domain;
  };
  EXPECT_EQ(domain("devices_per_node = 16"), 16);
  EXPECT_EQ(domain("devices_per_node = 4\nscale_up = { bandwidth = \"450 GBps\" }"), 4);
  EXPECT_EQ(domain("scale_up = { bandwidth = \"450 GBps\" }\ndevices_per_node = 4"), 4);
  EXPECT_EQ(domain("devices_per_node = 4\nscale_up = { domain = 72, bandwidth = \"900 GBps\" }"),
            72);
  EXPECT_THAT(complaint("devices_per_node = 8",
                        "devices_per_node = 0\nscale_up = { bandwidth = \"450 GBps\" }"),
              HasSubstr("datacenter[0].devices_per_node = 0: must lie between"));
}

TEST(ClusterFile, ReadsNamesAndInlineDevices) {
  const Cluster cluster = *read(kTwo);
  EXPECT_EQ(cluster.devices(), 17);
  EXPECT_EQ(cluster.find("paris")->device.memory, 1_GB);
  EXPECT_EQ(cluster.link("paris", "oregon")->one_way_latency, 40_ms);
  EXPECT_EQ(cluster.link("paris", "rome"), nullptr);
}

using DeviceFile = FolderTest;

// In the folder of the file that names it, wherever the program runs.
TEST_F(DeviceFile, IsReadByItsName) {
  const Device device{.name = "cpu",
                      .kind = DeviceKind::kCpu,
                      .peak = 77_GFLOPS,
                      .memory = 3_GiB,
                      .memory_bandwidth = 9_GBps,
                      .efficiency = 0.7,
                      .attention_efficiency = 0.2};
  ASSERT_TRUE(write_file(at("cpu.toml"), "# measured\n" + to_toml(write_fields(device))));
  const auto read = [&](const std::string& name) {
    const std::string text = fmt::format("[[datacenter]]\nname = \"a\"\ndevice = \"{}\"\n", name);
    return read_cluster(*parse_toml(text, at("job.toml")), at("job.toml"), "cluster");
  };
  const auto found = read("cpu.toml");
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->datacenters[0].device, device);
  const auto missing = read("cpus.toml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().exit_code(), 2);
  EXPECT_THAT(missing.error().text(),
              HasSubstr("job.toml:3: cluster.datacenter[0].device = \"cpus.toml\": "));
  ASSERT_TRUE(write_file(at("bad.toml"), "name = \"cpu\"\npeak = \"fast\"\n"));
  const auto bad = read("bad.toml");
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().text(), HasSubstr("bad.toml:2: peak = \"fast\""));
}

TEST(ClusterFile, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(complaint("\"5 Gbps\"", "\"5 Gbs\""),
              HasSubstr("c.toml:13: wan[0].node_pair_limit = \"5 Gbs\": unknown unit \"Gbs\""));
  EXPECT_THAT(complaint("\"5 Gbps\"", "5"), HasSubstr("node_pair_limit"));
  EXPECT_THAT(complaint("a100-80g", "a100-8g"), HasSubstr("there is no device \"a100-8g\""));
  EXPECT_THAT(complaint("a100-80g", "a100-8g"), HasSubstr("a100-80g"));
  EXPECT_THAT(complaint("node_pair_limit", "node_pair_limits"), HasSubstr("node_pair_limit"));
  EXPECT_THAT(complaint("name = \"paris\"", "name = \"oregon\""),
              HasSubstr("two datacenters are called \"oregon\""));
  EXPECT_THAT(complaint("[\"oregon\", \"paris\"]", "[\"oregon\", \"rome\"]"),
              HasSubstr("there is no datacenter \"rome\""));
  EXPECT_THAT(complaint("[\"oregon\", \"paris\"]", "[\"oregon\", \"oregon\"]"),
              HasSubstr("wanted two different datacenters"));
  EXPECT_THAT(complaint("nodes = 2", "nodes = 0"), HasSubstr("must lie between 1 and 10000000"));
  EXPECT_THAT(complaint("\"40 ms\"", "\"-40 ms\""), HasSubstr("must not be negative"));
}

// The descriptions of scale_up and scale_out say so.
TEST(Cluster, ADatacenterThatNamesNoNetworks) {
  const Datacenter datacenter;
  EXPECT_EQ(datacenter.scale_up.bandwidth, 300_GBps);
  EXPECT_EQ(datacenter.scale_out.bandwidth, 25_GBps);
}

TEST(Cluster, CallersKeepTheirPromises) {
  WanLink link{.between = {"oregon"}};
  EXPECT_DEATH(link.joins("oregon", "paris"), "a WAN link between 1 datacenters");
  EXPECT_DEATH(flow_rate(link), "1 connections of 0 B/s");
  link.node_pair_limit = 5_Gbps;
  link.connections = 0;
  EXPECT_DEATH(flow_rate(link), "0 connections of 625000000 B/s");
}

}  // namespace
}  // namespace tombolo::cluster
