// Ranks of a Plan in threads, each with files of its own: who notices that they differ.
#include "perform/stage/dataset_fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "perform/kernels/emulated_kernels.h"
#include "support/memory_messenger.h"
#include "support/test_plan.h"

namespace tombolo::stage {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FactsKernels : public kernels::EmulatedKernels {
 public:
  FactsKernels(const plan::Plan& plan, int32_t rank, Clock& clock, kernels::DataFacts facts)
      : kernels::EmulatedKernels(plan, rank, clock), facts_(std::move(facts)) {}
  Result<kernels::DataFacts> data_facts() const override { return facts_; }
  void expect_evaluation_batches(int64_t batches) override { told_ = batches; }
  int64_t evaluation_batches() const override { return told_; }

 private:
  const kernels::DataFacts facts_;
  int64_t told_ = 0;
};

class DataFactsTest : public ::testing::Test {
 protected:
  // Stage by stage, ranks of both pipelines: 0 and 1, 2 and 3, 4 and 5.
  DataFactsTest() {
    for (cluster::Datacenter& each : plan_.cluster.datacenters) {
      each.device.kind = cluster::DeviceKind::kCpu;
    }
    plan_.data = plan::Data{.text = "corpus.txt"};
    for (const int32_t rank : {0, 1, 4, 5}) read(rank, "0123456789");
  }

  void read(int32_t rank, const std::string& digest) {
    files_[rank] = {{"corpus.txt", {.bytes = 100, .digest = digest}}};
  }

  // What each rank answers; empty: all is well.
  std::vector<std::string> agree() {
    train::MemoryHub hub;
    ManualClock clock;
    const auto one = [&](int32_t rank) -> std::string {
      // Pipelines have as many held-out batches as their share of all.
      const int64_t batches = files_[rank].empty() ? 0 : 7 + plan_.ranks[rank].replica;
      FactsKernels kernels(plan_, rank, clock, {files_[rank], batches});
      train::MemoryMessenger messenger(hub, rank);
      const Status status = agree_on_data(plan_, rank, 5, kernels, messenger);
      told_[rank] = kernels.evaluation_batches();
      if (status) return "";
      hub.lose(rank);
      if (status.error().code == ErrorCode::kUnusable) {
        EXPECT_EQ(status.error().exit_code(), 2);
      }
      return status.error().text();
    };
    std::vector<std::future<std::string>> ranks;
    for (int32_t rank = 0; rank < 6; ++rank)
      ranks.push_back(std::async(std::launch::async, one, rank));
    std::vector<std::string> out;
    for (auto& rank : ranks) out.push_back(rank.get());
    return out;
  }

  plan::Plan plan_ = make_test_plan({.stages = 3, .microbatches = 1, .replicas = 2});
  std::array<std::vector<kernels::DataFacts::File>, 6> files_;
  std::array<int64_t, 6> told_{};
};

TEST_F(DataFactsTest, EqualCopiesPassAndTheMiddleLearnsHowManyBatchesThereAre) {
  EXPECT_THAT(agree(), Each(""));
  EXPECT_THAT(told_, ElementsAre(0, 0, 7, 8, 0, 0));
}

TEST_F(DataFactsTest, TheEndsOfAPipelineMustReadTheSame) {
  read(5, "abcdefghij");
  EXPECT_THAT(
      agree(),
      ElementsAre("", "", "", "", "",
                  "the files of [data] on rank 1 in oregon, which reads inputs, and on rank "
                  "5 in tokyo, which reads targets, differ: corpus.txt has 100 bytes with "
                  "digest 01234567 on rank 1, 100 bytes with digest abcdefgh on rank 5\n"
                  "  try copies of the same files at the same paths of both hosts"));
}

// Before: no message passed between pipelines, and each trained on its own.
TEST_F(DataFactsTest, PipelinesMustReadTheSame) {
  read(1, "abcdefghij");
  read(5, "abcdefghij");
  const std::vector<std::string> ends = agree();
  EXPECT_THAT(ends[0] + ends[2] + ends[4], "");
  EXPECT_THAT(ends[1],
              HasSubstr("the files of [data] on rank 0 in oregon (replica 0) and on rank 1 in "
                        "oregon (replica 1) differ, and replicas train on one data set: corpus.txt "
                        "has 100 bytes with digest 01234567 on rank 0, 100 bytes with digest "
                        "abcdefgh on rank 1\n  try copies of the same files"));
  EXPECT_THAT(ends[1], HasSubstr("[[data.share]]"));
  EXPECT_THAT(ends[3], HasSubstr("rank 1 went away"));
}

TEST_F(DataFactsTest, SharesMayDifferAndTheirReadersMayNot) {
  plan_.data = plan::Data{.share = {{.tokens = {"a.bin"}, .datacenters = {}, .pipelines = {0}},
                                    {.tokens = {"b.bin"}, .datacenters = {}, .pipelines = {1}}}};
  read(1, "abcdefghij");
  read(5, "abcdefghij");
  EXPECT_THAT(agree(), Each(""));
  plan_.data->share = {{.tokens = {"a.bin"}, .datacenters = {}, .pipelines = {0, 1}}};
  EXPECT_THAT(agree()[1], HasSubstr("(replica 0) and on rank 1 in oregon (replica 1) differ"));
}

// An emulated pipeline next to one that computes: the first that reads anything is number 1.
TEST_F(DataFactsTest, EmulatedPipelinesReadNothing) {
  plan_ = make_test_plan({.stages = 3, .microbatches = 1, .replicas = 2, .apart = true});
  plan_.data = plan::Data{.text = "corpus.txt"};
  plan_.cluster.datacenters[1].device.kind = cluster::DeviceKind::kCpu;
  for (const int32_t rank : {0, 2, 4}) files_[rank].clear();
  EXPECT_THAT(agree(), Each(""));
  plan_.data.reset();
  EXPECT_THAT(agree(), Each(""));
}

TEST_F(DataFactsTest, MessagesAreReadAsTheyWereWrittenAndNotBelieved) {
  const kernels::DataFacts facts{{{"a b\".bin", {.bytes = 3, .digest = "d"}}}, 12};
  const auto read = decode_data_facts(encode(facts));
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_EQ(read->files.at(0).path, "a b\".bin");
  EXPECT_EQ(read->files.at(0).content, facts.files[0].content);
  EXPECT_EQ(read->evaluation_batches, 12);
  EXPECT_FALSE(decode_data_facts({}));
  EXPECT_FALSE(decode_data_facts(encode({{}, -1})));
}

}  // namespace
}  // namespace tombolo::stage
