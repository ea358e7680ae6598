#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "predict/astra/workload_run.h"

namespace tombolo::astra {
namespace {

using testing::HasSubstr;

plan::Job job(int domain) {
  const auto parsed = plan::parse_job(
      fmt::format(
          "[model]\npreset = \"gpt3-175b\"\n[[cluster.datacenter]]\nname = \"here\"\n"
          "device = \"a100-80g\"\nnodes = 4\ndevices_per_node = 8\n"
          "scale_up = {{ domain = {}, bandwidth = \"300 GBps\", latency = \"1 us\" }}\n"
          "scale_out = {{ bandwidth = \"200 Gbps\", latency = \"5 us\" }}\n"
          "[training]\nglobal_batch = 8\nprecision = \"bf16\"\n[parallelism]\npipeline = 1\n",
          domain),
      "job.toml");
  CHECK(parsed, "{}", parsed.error().text());
  return *parsed;
}

TEST(WorkloadNetwork, HasASwitchPerDomainAndOneForTheDomains) {
  const auto topology = network_of(job(8), 32);
  ASSERT_TRUE(topology) << topology.error().text();
  EXPECT_EQ(topology->text(), "Switch(8) x Switch(4)");
  // NVLink reaches 0.979 of 300 GB/s, InfiniBand 0.895 of 25; two links of half the latency each:
  // 1 and 5 us.
  EXPECT_EQ(topology->delay(0, 1, 293'700).ns, 2'000);
  EXPECT_EQ(topology->delay(0, 8, 22'375).ns, 6'000);
  EXPECT_EQ(network_of(job(8), 4)->text(), "Switch(4)");
  EXPECT_EQ(network_of(job(1), 32)->text(), "Switch(32)");
  EXPECT_EQ(network_of(job(1), 32)->delay(0, 1, 22'375).ns, 6'000);
}

// What collectives reach has been measured with what they add, and with their launches.
TEST(WorkloadNetwork, TakesTheStartUpOfTheFabricThatAGroupLeaves) {
  const auto on = [](int domain, int32_t ranks) {
    return *system_on(job(domain), *network_of(job(domain), ranks));
  };
  EXPECT_EQ(on(8, 32).startup, (std::vector<int64_t>{65'700, 25'300}));
  EXPECT_EQ(on(8, 8).startup, (std::vector<int64_t>{65'700}));
  EXPECT_EQ(on(1, 32).startup, (std::vector<int64_t>{25'300}));
  EXPECT_EQ(on(8, 32).memory_bandwidth, 0);
}

// As many GPUs of each domain as `estimate` lays the groups over: tensor 4 of 8, and no third of what is left.
TEST(WorkloadNetwork, TakesEquallyManyOfDomainsThatArePartlyEmpty) {
  const auto spread = [](int domain, int64_t tensor, int64_t data) {
    plan::Job asked = job(domain);
    asked.parallelism.tensor = tensor;
    asked.parallelism.data = data;
    const auto topology = network_of(asked, static_cast<int32_t>(tensor * data));
    EXPECT_TRUE(topology) << topology.error().text();
    return topology ? topology->text() : "";
  };
  EXPECT_EQ(spread(8, 4, 3), "Switch(4) x Switch(3)");
  EXPECT_EQ(spread(8, 2, 6), "Switch(4) x Switch(3)");
  EXPECT_EQ(spread(72, 8, 32), "Switch(64) x Switch(4)");
  EXPECT_EQ(spread(8, 1, 9), "Switch(9)");
}

TEST(WorkloadNetwork, ReducesAtTheDevicesMemoryBandwidth) {
  const SystemSettings settings = system_of(job(8), 2);
  EXPECT_EQ(settings.algorithms.at(graph::CollectiveType::kAllGather).size(), 2u);
  const auto device = job(8).cluster.datacenters.front().device;
  EXPECT_DOUBLE_EQ(settings.memory_bandwidth * 1e9, device.memory_bandwidth.value);
}

// Experts' messages go to whom they are for, which a switch can do: as many bytes as `traffic` counts.
TEST(WorkloadNetwork, NobodyPassesOnWhatExpertsExchange) {
  const SystemSettings settings = system_of(job(8), 2);
  const auto& choices = settings.algorithms.at(graph::CollectiveType::kAllToAll);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0], *network::parse_algorithm("direct1"));
  EXPECT_EQ(settings.groups, GroupShape::kHierarchical);
  const SystemSettings rings = system_of(job(8), 2, GroupShape::kRing);
  EXPECT_EQ(rings.algorithms.at(graph::CollectiveType::kAllToAll),
            (std::vector{*network::parse_algorithm("oneDirect")}));
}

TEST(WorkloadNetwork, CallersKeepTheirPromises) {
  plan::Job nowhere = job(8);
  EXPECT_DEATH((void)network_of(nowhere, 0), "a network of 0 ranks");
  nowhere.cluster.datacenters.clear();
  EXPECT_DEATH(system_of(nowhere, 2), "job.toml: a job without a datacenter");
}

}  // namespace
}  // namespace tombolo::astra
