#include "decide/sweep/sweep_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/toml.h"

namespace tombolo::sweep {
namespace {

using ::testing::HasSubstr;

constexpr const char* kJob = R"(
[[cluster.datacenter]]
name = "oregon"
device = "a100-80g"
nodes = 3
[[cluster.datacenter]]
name = "us.east"
device = { name = "x", memory = "80 GB" }
[[cluster.wan]]
between = ["oregon", "us.east"]
one_way_latency = "40 ms"
[training]
global_batch = 8
)";

// The value at `key` of the table that is reached by keys and numbers.
std::string at(const Value& job, const std::vector<std::string>& way) {
  const Value* value = &job;
  for (const std::string& step : way) {
    if (const auto* array = value->get<Value::Array>()) {
      value = &(*array)[static_cast<size_t>(std::stoi(step))];
    } else {
      value = value->find(step);
    }
    if (!value) return "nothing";
  }
  return to_json(*value, -1);
}

Value put(const std::string& path, const Value& value) {
  Value job = *parse_toml(kJob, "job.toml");
  const Result<int64_t> added = SweepPath::parse(path)->put(job, value);
  EXPECT_TRUE(added) << added.error().text();
  return job;
}

std::string complaint(const std::string& path) {
  const Result<SweepPath> parsed = SweepPath::parse(path);
  if (!parsed) return parsed.error().text();
  Value job = *parse_toml(kJob, "job.toml");
  const Result<int64_t> added = parsed->put(job, 1);
  return added ? "" : added.error().text();
}

TEST(SweepPath, ReachesSectionsListsAndNames) {
  EXPECT_EQ(at(put("training.global_batch", 16), {"training", "global_batch"}), "16");
  EXPECT_EQ(at(put("cluster.datacenter[1].nodes", 5), {"cluster", "datacenter", "1", "nodes"}),
            "5");
  EXPECT_EQ(at(put("cluster.datacenter.oregon.nodes", 5), {"cluster", "datacenter", "0", "nodes"}),
            "5");
  EXPECT_EQ(
      at(put("cluster.datacenter.\"us.east\".nodes", 5), {"cluster", "datacenter", "1", "nodes"}),
      "5");
  for (const char* path : {"cluster.wan.\"oregon-us.east\".connections",
                           "cluster.wan.\"us.east-oregon\".connections"}) {
    EXPECT_EQ(at(put(path, 16), {"cluster", "wan", "0", "connections"}), "16");
  }
}

TEST(SweepPath, ReachesAllEntriesOfAList) {
  const Value job = put("cluster.datacenter.*.price", "2 USD/device-hour");
  EXPECT_EQ(at(job, {"cluster", "datacenter", "0", "price"}), "\"2 USD/device-hour\"");
  EXPECT_EQ(at(job, {"cluster", "datacenter", "1", "price"}), "\"2 USD/device-hour\"");
}

TEST(SweepPath, ReachesIntoACatalogDevice) {
  const Value job = put("cluster.datacenter.oregon.device.memory", "40 GB");
  EXPECT_EQ(at(job, {"cluster", "datacenter", "0", "device", "memory"}), "\"40 GB\"");
  EXPECT_NE(at(job, {"cluster", "datacenter", "0", "device", "peak"}), "nothing");
}

TEST(SweepPath, AddsOptionalKeysAndSections) {
  Value job = *parse_toml(kJob, "job.toml");
  EXPECT_EQ(*SweepPath::parse("training.micro_batch")->put(job, 2), 1);
  EXPECT_EQ(*SweepPath::parse("training.micro_batch")->put(job, 4), 0);
  EXPECT_EQ(*SweepPath::parse("parallelism.pipeline")->put(job, 4), 1);
  EXPECT_EQ(at(job, {"parallelism", "pipeline"}), "4");
}

TEST(SweepPath, NamesWhatIsNear) {
  EXPECT_THAT(complaint("trainning.global_batch"), HasSubstr("try \"training\""));
  EXPECT_THAT(complaint("cluster.datacentre.oregon.nodes"), HasSubstr("try \"datacenter\""));
  EXPECT_THAT(complaint("cluster.datacenter.paris.nodes"),
              HasSubstr("cluster.datacenter has no \"paris\"\n  try one of oregon, us.east"));
  EXPECT_THAT(complaint("cluster.datacenter[2].nodes"), HasSubstr("has 2 entries, no [2]"));
  EXPECT_THAT(complaint("training.global_batch.x"), HasSubstr("is a whole number, not a table"));
  EXPECT_THAT(complaint("training[0]"), HasSubstr("not a list"));
  EXPECT_THAT(complaint("training.*"), HasSubstr("is no list"));
}

TEST(SweepPath, RefusesWhatIsNoPath) {
  for (const char* path : {"", ".", "a.", "a..b", "a[", "a[x]", "a[-1]", "a[1]b", "\"a"}) {
    EXPECT_THAT(complaint(path), HasSubstr("--vary ")) << path;
  }
}

TEST(SweepPathDeathTest, APathLeadsSomewhere) {
  Value job{Value::Table{}};
  EXPECT_DEATH(static_cast<void>(SweepPath().put(job, 1)), "a path without a step");
}

}  // namespace
}  // namespace tombolo::sweep
