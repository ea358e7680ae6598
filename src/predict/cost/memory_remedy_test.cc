#include "predict/cost/memory_remedy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/job_texts.h"

namespace tombolo::cost {
namespace {

using ::testing::HasSubstr;

// Llama 3 8B on nodes of one A100. State alone takes 18 bytes a parameter with the stack megatron.
plan::Job llama_on(int nodes, const std::string& training, const std::string& parallelism) {
  const auto job = plan::parse_job(
      fmt::format("[model]\npreset = \"llama3-8b\"\n[[cluster.datacenter]]\nname = \"a\"\n"
                  "device = \"a100-80g\"\nnodes = {}\ndevices_per_node = 8\n"
                  "[training]\nstack = \"megatron\"\nglobal_batch = 64\n{}[parallelism]\n{}",
                  nodes, training, parallelism),
      "job.toml");
  EXPECT_TRUE(job) << job.error().text();
  return *job;
}

// 8.03 G parameters x 18 bytes are 145 GB on every replica; activations take some 37 GB. Divided over
// eight, the optimizer alone leaves 2 + 4 + 12 / 8 bytes each, 60 GB, and with the gradients 32 GB.
TEST(MemoryRemedy, IsZeroWhereReplicasHoldTheSame) {
  EXPECT_EQ(memory_remedy(llama_on(1, "", "pipeline = 1\ndata = 8\n")), "zero = 2");
}

// One replica has nothing to divide.
TEST(MemoryRemedy, IsAnotherDegreeWhereThereAreDevicesForIt) {
  EXPECT_EQ(memory_remedy(llama_on(1, "", "pipeline = 1\n")), "tensor = 4");
}

// Two devices hold at most 168 GB, and the model's state is 145 GB: no activations fit beside it.
TEST(MemoryRemedy, SaysThatNothingHelps) {
  plan::Job job = llama_on(1, "", "pipeline = 1\n");
  job.cluster.datacenters[0].devices_per_node = 1;
  EXPECT_THAT(memory_remedy(job), HasSubstr("more devices, larger ones or a smaller model"));
}

// All 64 microbatches in flight: GPipe's memory, which 1F1B does not need.
TEST(MemoryRemedy, MayBeAnotherSchedule) {
  EXPECT_EQ(memory_remedy(llama_on(1, "", "pipeline = 8\nschedule = \"gpipe\"\n")),
            "schedule = \"1f1b\"");
}

// Where most was left untried, that nothing fits would be no more than a guess.
TEST(MemoryRemedy, SaysNothingWhereItWouldTakeTooLong) {
  EXPECT_EQ(memory_remedy(llama_on(1, "", "pipeline = 1\n"), 100), "");
  plan::Job job = llama_on(1, "", "pipeline = 1\n");
  job.cluster.datacenters[0].devices_per_node = 1;
  EXPECT_EQ(memory_remedy(job, 100), "");
}

TEST(MemoryRemedy, LeavesStatedTimesAlone) {
  plan::Job job = llama_on(1, "", "pipeline = 1\n");
  job.stage_times = plan::StageTimes{.forward = {1_ms}, .backward = {2_ms}};
  EXPECT_EQ(memory_remedy(job), "");
}

}  // namespace
}  // namespace tombolo::cost
