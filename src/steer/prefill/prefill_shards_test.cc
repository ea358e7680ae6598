#include "steer/prefill/prefill_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "spec/plan/job.h"

namespace tombolo::prefill {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> layers_of(const std::vector<model::Slice>& slices) {
  std::vector<int64_t> layers;
  for (const model::Slice& slice : slices) layers.push_back(slice.layers);
  return layers;
}

// Llama 3 8B: a layer has 2 x 4096 x (4096 + 1024) + 3 x 4096 x 14336 + 2 x 4096 = 218,112,000
// parameters, embedding and head 128,256 x 4096 = 525,336,576 each.
TEST(PrefillShards, AreEvenWhereMemoryAllows) {
  const model::Model llama = *model::preset("llama3-8b");
  EXPECT_DOUBLE_EQ(shard_bytes(llama, {0, 4, false, false}).value, 2 * 4 * 218'112'000.0);
  EXPECT_THAT(layers_of(split_shards(llama, 8, 3_GB)), ElementsAre(4, 4, 4, 4, 4, 4, 4, 4));
  // 2.2 GB hold five layers, or two and an end: 2 + 6 x 5 + 2 = 34, so two of the six have four.
  EXPECT_THAT(layers_of(split_shards(llama, 8, 2.2_GB)), ElementsAre(2, 5, 5, 5, 5, 4, 4, 2));
  // 2 GB hold four: 2 + 6 x 4 + 2 = 28 of 32. One more stage carries them.
  EXPECT_TRUE(split_shards(llama, 8, 2_GB).empty());
  EXPECT_EQ(depth_min(llama, 2_GB, 50), 9);
  EXPECT_EQ(depth_min(llama, 17_GB, 50), 1);
  EXPECT_EQ(depth_min(llama, 1_GB, 50), 0);
  EXPECT_TRUE(split_shards(llama, 33, 100_GB).empty());
}

TEST(PrefillShards, CoverTheModelOnceAndFit) {
  for (const char* name : {"llama3-8b", "gpt2", "mixtral-8x7b", "deepseek-v2"}) {
    const model::Model model = *model::preset(name);
    const Bytes whole = shard_bytes(model, {0, model.layers, true, true});
    for (int64_t depth = 1; depth <= model.layers; depth += 3) {
      for (const double share : {0.1, 0.2, 0.5, 1.0}) {
        const std::vector<model::Slice> slices = split_shards(model, depth, whole * share);
        int64_t next = 0;
        for (const model::Slice& slice : slices) {
          EXPECT_EQ(slice.first_layer, next);
          EXPECT_GE(slice.layers, 1);
          EXPECT_LE(shard_bytes(model, slice), whole * share);
          next += slice.layers;
        }
        EXPECT_TRUE(slices.empty() || next == model.layers) << name << " " << depth;
      }
    }
  }
}

// 2 x 8 heads x 128 numbers at 2 bytes; of DeepSeek-V2 512 + 64.
TEST(PrefillShards, KnowTheKvCache) {
  EXPECT_EQ(kv_bytes(*model::preset("llama3-8b")), 4096_B);
  EXPECT_EQ(kv_bytes(*model::preset("deepseek-v2")), 1152_B);
}

plan::Plan plan_of(const std::string& parallelism) {
  const Result<plan::Job> job = plan::parse_job(R"([model]
preset = "llama3-8b"
[[cluster.datacenter]]
name = "oregon"
device = "h100-80g"
nodes = 4
devices_per_node = 4
[[cluster.datacenter]]
name = "paris"
device = "h100-80g"
nodes = 4
devices_per_node = 4
[[cluster.wan]]
between = ["oregon", "paris"]
one_way_latency = "10 ms"
node_pair_limit = "5 Gbps"
[training]
global_batch = 84
[parallelism]
pipeline = 2
)" + parallelism,
                                                "job.toml");
  return *plan::lay_out(*job);
}

// Six pipelines in cells of two: three cells. Stage 0 has places {0, 2, 4} and {1, 3, 5}; so has
// stage 1, with ranks from 6 on.
TEST(PrefillShards, PipelinesJoinTheSamePlaceOfAllCells) {
  const plan::Plan plan = plan_of("data = 6\ncell = 2\nschedule = \"atlas\"\n");
  const PrefillFleet fleet =
      *fleet_of(plan, {.model = *model::preset("llama3-8b"), .memory = 8_GB});
  ASSERT_EQ(fleet.gpus.size(), 12);
  std::vector<std::vector<int32_t>> rows;
  for (const PrefillPipeline& pipeline : fleet.pipelines) {
    rows.emplace_back();
    for (const PipelineStage& stage : pipeline.stages) {
      rows.back().push_back(fleet.gpus[static_cast<size_t>(stage.gpu)].rank);
    }
  }
  // 16 GB over at most 8 GB each are three shards.
  EXPECT_THAT(rows, ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3, 5), ElementsAre(6, 8, 10),
                                ElementsAre(7, 9, 11)));
  EXPECT_EQ(fleet.pipelines[0].datacenter, 0);
  EXPECT_EQ(fleet.pipelines[3].datacenter, 1);
  EXPECT_LE(fleet.shard_max, 8_GB);
}

// Seven GPUs and a depth of at least two: three pipelines of 2, 2 and 3. With tensor = 2 each rank
// has two GPUs, of which the first of all ranks go together.
TEST(PrefillShards, EveryGpuServes) {
  const plan::Plan plan = plan_of("data = 7\n");
  const PrefillFleet fleet =
      *fleet_of(plan, {.model = *model::preset("llama3-8b"), .memory = 10_GB});
  std::vector<size_t> depths;
  for (const PrefillPipeline& pipeline : fleet.pipelines) {
    depths.push_back(pipeline.stages.size());
  }
  EXPECT_THAT(depths, ElementsAre(2, 2, 3, 2, 2, 3));

  const PrefillFleet sharded =
      *fleet_of(plan_of("data = 2\ntensor = 2\n"),
                {.model = *model::preset("llama3-8b"), .memory = 10_GB, .depth = 2});
  ASSERT_EQ(sharded.pipelines.size(), 4);
  EXPECT_EQ(sharded.gpus[static_cast<size_t>(sharded.pipelines[1].stages[1].gpu)],
            (PrefillGpu{1, 1}));
}

TEST(PrefillShards, SayWhichMemoryWouldDo) {
  const auto text_of = [](const plan::Prefill& prefill) {
    const Result<PrefillFleet> fleet = fleet_of(plan_of("data = 2\n"), prefill);
    return fleet ? std::string("no error") : fleet.error().text();
  };
  const model::Model llama = *model::preset("llama3-8b");
  EXPECT_THAT(text_of({.model = llama, .memory = 2_GB}), HasSubstr("memory = \"8.03 GB\""));
  EXPECT_THAT(text_of({.model = llama, .memory = 20_GB, .depth = 3}), HasSubstr("depth = 2"));
  const auto error = fleet_of(plan_of("data = 2\n"), {.model = llama, .memory = 2_GB}).error();
  EXPECT_EQ(error.code, ErrorCode::kInfeasible);
}

}  // namespace
}  // namespace tombolo::prefill
