#include "lab/wanem/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "base/toml.h"

namespace tombolo::wanem {
namespace {

using testing::HasSubstr;

cluster::Cluster cluster_with(const std::string& more) {
  const std::string text = R"(
[[datacenter]]
name = "oregon"
device = "a100-80g"
[[datacenter]]
name = "paris"
device = "a100-80g"
[[wan]]
between = ["paris", "oregon"]
one_way_latency = "40 ms"
node_pair_limit = "5 Gbps"
)" + more;
  const auto table = parse_toml(text, "two.toml");
  auto cluster = cluster::read_cluster(*table, "two.toml", "");
  EXPECT_TRUE(cluster) << cluster.error().text();
  return *cluster;
}

TEST(Scenario, ALinkGivesTwoDirections) {
  const auto scenario = scenario_of(cluster_with(R"(
path_limit = "20 Gbps"
loss = 0.001
loss_burst = 3
jitter = "1 ms"
queue = "10 MB"
tcp_window = "3 MB"
)"),
                                    20);
  ASSERT_TRUE(scenario) << scenario.error().text();
  EXPECT_EQ(scenario->datacenters, (std::vector<std::string>{"oregon", "paris"}));
  ASSERT_EQ(scenario->directions.size(), 2u);
  EXPECT_EQ(scenario->directions[0].from, 1);
  EXPECT_EQ(scenario->directions[0].to, 0);
  EXPECT_EQ(scenario->directions[1].from, 0);
  for (const Direction& direction : scenario->directions) {
    // What counts bytes is divided by 20; times and shares are not.
    EXPECT_EQ(direction.shape.node_pair_rate, 250_Mbps);
    EXPECT_EQ(direction.shape.path_rate, 1_Gbps);
    EXPECT_EQ(direction.shape.queue, 500_KB);
    EXPECT_EQ(direction.shape.tcp_window, 150592_B);  // 150 kB are 103.6 segments of 1448: 104
    EXPECT_EQ(direction.shape.delay, SimDuration{40'000'000});
    EXPECT_EQ(direction.shape.jitter, SimDuration{1'000'000});
    EXPECT_EQ(direction.shape.loss, 0.001);
    EXPECT_EQ(direction.shape.loss_burst, 3);
  }
}

TEST(Scenario, TheQueueIsARoundTripUnlessToldOtherwise) {
  LinkShape shape{.delay = {40'000'000}};
  EXPECT_EQ(queue_limit(shape, 5_Gbps), 50_MB);  // 625 MB/s x 80 ms
  EXPECT_EQ(queue_limit(shape, 8_Mbps), 256_KiB) << "80 kB would not take two large frames";
  shape.queue = 1_MB;
  EXPECT_EQ(queue_limit(shape, 5_Gbps), 1_MB);
}

TEST(Scenario, ReadsRateTraces) {
  const std::string path = testing::TempDir() + "scenario_test." + std::to_string(getpid());
  ASSERT_TRUE(write_file(path, "time_s,rate_mbps\n0,100\n1,300\n"));
  const auto scenario = scenario_of(cluster_with("rate_trace = \"" + path + "\""), 10);
  ASSERT_TRUE(scenario) << scenario.error().text();
  EXPECT_DOUBLE_EQ(scenario->directions[1].shape.trace.mean().value, (20_Mbps).value);
  ASSERT_TRUE(write_file(path, "time_s,rate_mbps\n0,fast\n"));
  const auto wrong = scenario_of(cluster_with("rate_trace = \"" + path + "\""), 10);
  unlink(path.c_str());
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(wrong.error().text(), HasSubstr(path + ":2:"));
}

TEST(Scenario, RefusesWhatCannotBe) {
  const Scenario two{{"a", "b"}, {}};
  const auto complaint = [&](Direction direction) {
    Scenario scenario = two;
    scenario.directions.push_back(std::move(direction));
    const Status status = scenario.check();
    return status ? "" : status.error().text();
  };
  EXPECT_EQ(complaint({0, 1, {}}), "");
  EXPECT_THAT(complaint({0, 2, {}}), HasSubstr("datacenter 0 to 2 of 2"));
  EXPECT_THAT(complaint({1, 1, {}}), HasSubstr("1 to 1"));
  EXPECT_THAT(complaint({0, 1, {.loss = 1}}), HasSubstr("loss = 1"));
  EXPECT_THAT(complaint({0, 1, {.loss_burst = 0}}), HasSubstr("loss_burst = 0"));
  EXPECT_THAT(complaint({0, 1, {.delay = {-1}}}), HasSubstr("delay"));
  EXPECT_THAT(complaint({0, 1, {.jitter = {int64_t{1} << 60}}}), HasSubstr("jitter"));
  EXPECT_THAT(complaint({0, 1, {.node_pair_rate = BytesPerSecond{0}}}),
              HasSubstr("node_pair_rate"));
  EXPECT_THAT(complaint({0, 1, {.path_rate = BytesPerSecond{-5}}}), HasSubstr("path_rate"));
  EXPECT_THAT(complaint({0, 1, {.queue = Bytes{0}}}), HasSubstr("queue"));
  Scenario twice = two;
  twice.directions = {{0, 1, {}}, {0, 1, {}}};
  EXPECT_THAT(twice.check().error().text(), HasSubstr("a -> b stands twice"));
  EXPECT_FALSE(scenario_of(cluster_with(""), 0.5));
}

TEST(ScenarioDeathTest, AQueueStandsBeforeARate) {
  EXPECT_DEATH(queue_limit({}, {}), "a queue before 0 B/s");
}

}  // namespace
}  // namespace tombolo::wanem
