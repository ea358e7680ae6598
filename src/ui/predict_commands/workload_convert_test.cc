// A cluster that does not exist: a job becomes Chakra traces, and ASTRA-sim's command runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "spec/chakra/chakra.h"
#include "support/folder_test.h"
#include "support/job_texts.h"
#include "ui/predict_commands/astra_command.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::predict_commands {
namespace {

using ::testing::HasSubstr;

class ConvertWorkload : public FolderTest {
 protected:
  // Converts test::kForChakra with `more` keys of [parallelism]; what the command prints.
  std::string convert_with(const std::string& more, const std::string& granularity = "layer") {
    EXPECT_TRUE(write_file(at("job.toml"), test::kForChakra + more));
    ConvertOptions options{.input = at("job.toml"), .to = "chakra", .out = at("w")};
    options.granularity = granularity;
    std::ostringstream out;
    const Status status = convert(options, out);
    EXPECT_TRUE(status) << status.error().text();
    return out.str();
  }

  // When each rank finishes, in nanoseconds.
  std::vector<int64_t> run(const std::string& law) {
    EXPECT_TRUE(write_file(at("network.yml"),
                           "topology: [ Switch ]\nnpus_count: [ 8 ]\nbandwidth: [ 300.0 ]\n"
                           "latency: [ 1000.0 ]\n"));
    EXPECT_TRUE(write_file(at("system.json"), R"({"scheduling-policy": "FIFO",
        "endpoint-delay": 10, "active-chunks-per-dimension": 1, "preferred-dataset-splits": 4,
        "all-reduce-implementation": ["ring"], "all-gather-implementation": ["ring"],
        "reduce-scatter-implementation": ["ring"], "all-to-all-implementation": ["direct"],
        "collective-optimization": "localBWAware", "local-mem-bw": 1600, "boost-mode": 0})"));
    AstraCommandOptions options;
    options.workload = at("w");
    options.system = at("system.json");
    options.network = at("network.yml");
    options.comm_groups = at("w.groups.json");
    options.law = law;
    options.remote_memory = memory_;
    options.json = options.per_npu = true;
    std::ostringstream out;
    const Status status = astra(options, out);
    EXPECT_TRUE(status) << status.error().text();
    std::vector<int64_t> finishes;
    if (!status) return finishes;
    const Value answer = *parse_json(out.str(), "stdout");
    for (const Value& finish : *answer.find("per_npu")->get<Value::Array>()) {
      finishes.push_back(*finish.get<int64_t>());
    }
    return finishes;
  }

  // Of a rank: what it computes, in nanoseconds.
  int64_t computes(int32_t rank) {
    int64_t sum = 0;
    const auto graph = chakra::read_chakra(at(fmt::format("w.{}.et", rank)));
    EXPECT_TRUE(graph);
    for (const graph::Node& node : graph->nodes) sum += node.duration.ns;
    return sum;
  }

  std::string memory_;  // file of the remote memory; empty: none
};

TEST_F(ConvertWorkload, EveryRankFinishesUnderEitherLaw) {
  EXPECT_EQ(convert_with(""),
            at("w") + ".0.et to " + at("w") + ".7.et\n" + at("w") + ".groups.json\n");
  for (const char* law : {"analytical", "congestion"}) {
    const std::vector<int64_t> finishes = run(law);
    ASSERT_EQ(finishes.size(), 8);
    for (int32_t rank = 0; rank < 8; ++rank) {
      EXPECT_GT(finishes[static_cast<size_t>(rank)], computes(rank)) << law << ", rank " << rank;
    }
    // Replicas do the same.
    EXPECT_EQ(finishes[0], finishes[1]) << law;
    EXPECT_EQ(finishes[0], finishes[2]) << law;
  }
}

TEST_F(ConvertWorkload, EveryRankFinishesWithZeroAndSequenceParallelism) {
  for (const char* granularity : {"layer", "stage"}) {
    for (const char* zero : {"zero = 1\n", "zero = 3\n"}) {
      convert_with(std::string("sequence_parallel = true\n") + zero, granularity);
      EXPECT_THAT(run("analytical"), ::testing::Each(::testing::Gt(0)));
    }
  }
}

// ZeRO-Infinity: eight ranks whose shards are in a pool of the paper, with and without.
TEST_F(ConvertWorkload, ParametersMayLiveInAPool) {
  std::string text = test::kForChakra;
  text.replace(text.find("pipeline = 2\ndata = 2"), 21, "pipeline = 1\ndata = 4\nzero = 3");
  EXPECT_TRUE(write_file(at("job.toml"), text));
  EXPECT_TRUE(write_file(at("memory.json"), R"({"memory-type": "HIERARCHICAL_POOL",
      "num-nodes": 1, "num-npus-per-node": 8, "num-switches": 2, "num-memory-groups": 2,
      "memory-side-bw": 100, "gpu-side-bw": 200, "in-node-bw": 300, "remote-mem-latency": 2000})"));
  std::array<int64_t, 2> finish{};
  for (const bool remote : {false, true}) {
    ConvertOptions options{.input = at("job.toml"), .to = "chakra", .out = at("w")};
    options.remote_parameters = remote;
    std::ostringstream out;
    const Status status = convert(options, out);
    ASSERT_TRUE(status) << status.error().text();
    memory_ = remote ? at("memory.json") : "";
    const std::vector<int64_t> finishes = run("analytical");
    ASSERT_EQ(finishes.size(), 8);
    EXPECT_THAT(finishes, ::testing::Each(finishes[0]));
    finish[remote ? 1 : 0] = finishes[0];
  }
  EXPECT_GT(finish[1], finish[0]);
}

TEST_F(ConvertWorkload, WithoutSharedLayersAPlanIsWritten) {
  std::string text = test::kForChakra;
  text.replace(text.find("pipeline = 2"), 12, "pipeline = 4");
  text.replace(text.find("tensor = 2"), 10, "tensor = 1");
  text.replace(text.find("gpt-22b"), 7, "llama2-7b");
  text.replace(text.find("global_batch"), 0, "recompute = \"full\"\n");
  ASSERT_TRUE(write_file(at("job.toml"), text));
  std::ostringstream out;
  const Status status = convert({.input = at("job.toml"), .to = "chakra", .out = at("w")}, out);
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_THAT(out.str(), HasSubstr("w.7.et"));
}

using ConvertWorkloadDeathTest = ConvertWorkload;

TEST_F(ConvertWorkloadDeathTest, TheCommandLineWasRead) {
  std::ostringstream out;
  const plan::Job job = *plan::parse_job(test::kForChakra, "job.toml");
  EXPECT_DEATH(static_cast<void>(write_job_as_chakra(job, {}, out)),
               "no prefix for the files of 8 ranks");
  EXPECT_DEATH(static_cast<void>(write_plan_as_chakra({}, {}, out)),
               "no prefix for the files of 0 ranks");
  EXPECT_DEATH(
      static_cast<void>(convert_retargeted({.input = "run", .to = "chakra", .out = "w"}, out)),
      "run: retargeted to no number of ranks");
  EXPECT_DEATH(static_cast<void>(astra_sweep({}, {}, out)), "a sweep over nothing");
}

}  // namespace
}  // namespace tombolo::predict_commands
