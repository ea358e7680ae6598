#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/plan/job.h"

namespace tombolo::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Job job() {
  const Result<Job> job = parse_job(R"(
[model]
preset = "llama3-8b"
[[cluster.datacenter]]
name = "oregon"
device = "h100-80g"
nodes = 4
devices_per_node = 8
price = "2.10 USD/device-hour"
[[cluster.datacenter]]
name = "paris"
device = { name = "x", peak = "312 TFLOPS", memory = "80 GB", memory_bandwidth = "2 TBps" }
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "40 ms"
node_pair_limit = "5 Gbps"
[training]
global_batch = 64
recompute = "full"
[parallelism]
tensor = 2
pipeline = 2
data = 2
layers_per_stage = [15, 17]
[data]
text = "corpus.txt"
)",
                                    "jobs/job.toml");
  if (!job) throw job.error().text();
  return *job;
}

TEST(JobFile, ReadsBackEqual) {
  const Job before = job();
  const std::string text = to_toml_text(before, "jobs/again.toml", "Made by a test.\nTwo lines.");
  EXPECT_THAT(text, StartsWith("# Made by a test.\n# Two lines.\n\nname = \"job\"\n\n[model]\n"));
  EXPECT_THAT(text, HasSubstr("device = \"h100-80g\""));
  EXPECT_THAT(text, HasSubstr("device = { name = \"x\""));
  const Result<Job> after = parse_job(text, "jobs/again.toml");
  ASSERT_TRUE(after) << after.error().text() << "\n" << text;
  EXPECT_EQ(after->model, before.model);
  EXPECT_EQ(after->cluster, before.cluster);
  EXPECT_EQ(after->training, before.training);
  EXPECT_EQ(after->parallelism, before.parallelism);
  EXPECT_EQ(after->optimizer, before.optimizer);
  EXPECT_EQ(after->data, before.data);
  EXPECT_EQ(after->run, before.run);
}

TEST(JobFile, KeepsPathsPointingToTheSameFiles) {
  EXPECT_THAT(to_toml_text(job(), "elsewhere/again.toml", ""),
              HasSubstr("text = \"../jobs/corpus.txt\""));
  EXPECT_THAT(to_toml_text(job(), "again.toml", ""), HasSubstr("text = \"jobs/corpus.txt\""));
  Job strands = job();
  strands.parallelism.strands_profile = "jobs/overlap.csv";
  strands.cluster.wan.push_back({.between = {"a", "b"}, .rate_trace = "jobs/line.csv"});
  const std::string text = to_toml_text(strands, "elsewhere/again.toml", "");
  EXPECT_THAT(text, HasSubstr("strands_profile = \"../jobs/overlap.csv\""));
  EXPECT_THAT(text, HasSubstr("rate_trace = \"../jobs/line.csv\""));
}

}  // namespace
}  // namespace tombolo::plan
