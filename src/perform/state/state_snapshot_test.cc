#include "perform/state/state_snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "perform/kernels/emulated_kernels.h"
#include "support/folder_test.h"
#include "support/test_plan.h"

namespace tombolo::state {
namespace {

class KeptStates : public FolderTest {
 protected:
  int64_t newest() const {
    const auto found = choose_kept(list_kept(output_), plan_, 1);
    return found ? found->manifest.step : 0;
  }

  const std::string output_ = at("run");
  const std::string kept_ = kept_folder(output_, 7);
  const plan::Plan plan_ = make_test_plan({.stages = 1, .steps = 10});
  ManualClock clock_;
  kernels::EmulatedKernels kernels_{plan_, 0, clock_};
};

// Stopped within an update, a rank supplies the step before; after it, this one too.
TEST_F(KeptStates, AreOfTheLastStepsThatAreWhole) {
  StateSnapshot kept(kept_, 0, 7, 3);
  ASSERT_TRUE(kept.copy(3, kernels_));
  ASSERT_TRUE(kept.leave(kernels_));
  EXPECT_EQ(newest(), 3);
  kept.updated(4);
  ASSERT_TRUE(kept.leave(kernels_));
  EXPECT_EQ(newest(), 4);
}

// A run's output may be a folder that has a "kept" of its own.
TEST_F(KeptStates, AreRemovedAndNothingElseIs) {
  StateSnapshot kept(kept_, 0, 7, 3);
  ASSERT_TRUE(kept.leave(kernels_));
  for (const char* file : {"thesis.txt", "epoch-x", "epoch-1.txt"})
    ASSERT_TRUE(write_file(kept_folder(output_) + "/" + file, "mine"));
  remove_kept(output_);
  EXPECT_FALSE(std::filesystem::exists(kept_));
  for (const char* file : {"thesis.txt", "epoch-x", "epoch-1.txt"})
    EXPECT_TRUE(std::filesystem::remove(kept_folder(output_) + "/" + file)) << file;
  remove_kept(output_);
  EXPECT_TRUE(std::filesystem::exists(kept_folder(output_))) << "nothing in it was ours";
  ASSERT_TRUE(kept.leave(kernels_));
  remove_kept(output_);
  EXPECT_FALSE(std::filesystem::exists(kept_folder(output_)));
}

// A rank whose host has no room for a copy supplies what it holds, but within an update nothing.
TEST_F(KeptStates, WithoutRoomAreOfTheStepThatIsWhole) {
  int asked = 0;
  StateSnapshot kept(kept_, 0, 7, 3, [&](int64_t bytes) {
    EXPECT_EQ(bytes, 8) << "one layer, one count";
    ++asked;
    return false;
  });
  ASSERT_TRUE(kept.leave(kernels_));
  EXPECT_EQ(newest(), 3) << "no update has begun";
  EXPECT_EQ(kept.too_large(), 0) << "nobody has asked yet";
  ASSERT_TRUE(kept.copy(3, kernels_));
  EXPECT_EQ(kept.too_large(), 8);
  kept.updated(4);
  ASSERT_TRUE(kept.copy(4, kernels_));
  ASSERT_TRUE(kept.leave(kernels_));
  EXPECT_EQ(newest(), 3) << "within the update after step 4";
  kept.updated(5);
  ASSERT_TRUE(kept.leave(kernels_));
  EXPECT_EQ(newest(), 5);
  EXPECT_EQ(asked, 1);
}

// Its note stands, and what it vouches for does not: it was cut off when the disk was full.
TEST_F(KeptStates, OnesWhoseShardIsGoneOrTornDoNotCount) {
  StateSnapshot kept(kept_, 0, 7, 3);
  ASSERT_TRUE(kept.copy(3, kernels_));
  ASSERT_TRUE(kept.leave(kernels_));
  const auto found = list_kept(output_, 0);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].shard.epoch, 7);
  EXPECT_TRUE(list_kept(output_, 1).empty()) << "of another rank";
  const std::string shard = step_folder(kept_, 3) + "/" + found[0].shard.file;
  std::filesystem::resize_file(shard, static_cast<uintmax_t>(found[0].shard.bytes - 1));
  EXPECT_EQ(newest(), 0);
  std::filesystem::remove(shard);
  EXPECT_EQ(newest(), 0);
}

// Two stages, two replicas each, on hosts of their own: ranks 0 and 1 are replicas of stage 0.
TEST(KeptStatesOfManyHosts, AreChosenByWhatEveryStageCanSupply) {
  const plan::Plan plan = make_test_plan({.stages = 2, .replicas = 2, .steps = 10});
  const auto of = [](int32_t rank, int64_t epoch, int64_t step) {
    return KeptShard{step, rank, {.file = fmt::format("rank-{}", rank), .epoch = epoch}};
  };
  const int32_t first = plan.rank_of(0, 1), last = plan.rank_of(1, 0);
  std::vector<KeptShard> kept = {of(first, 2, 5), of(first, 2, 6), of(last, 2, 5)};
  auto choice = choose_kept(kept, plan, 1);
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->manifest.step, 5) << "of step 6 the last stage has nothing";
  ASSERT_EQ(choice->manifest.shards.size(), 2u);
  EXPECT_EQ(choice->epoch, 2u);

  kept.push_back(of(last, 3, 6));
  EXPECT_EQ(choose_kept(kept, plan, 1)->manifest.step, 5) << "never from two epochs";
  EXPECT_FALSE(choose_kept(kept, plan, 6)) << "the checkpoint is newer";
  kept.push_back(of(first, 3, 5));
  kept.push_back(of(last, 3, 5));
  EXPECT_EQ(choose_kept(kept, plan, 1)->epoch, 3u) << "of the newest epoch";
  kept = {of(first, 1, 10), of(last, 1, 10), of(99, 1, 9)};
  EXPECT_FALSE(choose_kept(kept, plan, 1)) << "nothing would be left to do";

  // Where replicas shard the optimizer's state, every rank has a part of its own.
  plan::Plan sharded = plan;
  sharded.parallelism.zero = 1;
  for (cluster::Datacenter& each : sharded.cluster.datacenters)
    each.device.kind = cluster::DeviceKind::kCpu;  // emulated ones have no such state
  kept = {of(0, 1, 5), of(1, 1, 5), of(2, 1, 5)};
  EXPECT_TRUE(choose_kept(kept, plan, 1));
  EXPECT_FALSE(choose_kept(kept, sharded, 1)) << "rank 3 is lost";
  kept.push_back(of(3, 1, 5));
  ASSERT_TRUE(choose_kept(kept, sharded, 1));
  EXPECT_EQ(choose_kept(kept, sharded, 1)->manifest.shards.size(), 4u);
}

// The thread that stops the rank does not wait for the thread that computes.
TEST_F(KeptStates, AreLeftByAnotherThreadBetweenTwoUpdates) {
  StateSnapshot kept(kept_, 0, 7, 0);
  std::atomic<int64_t> done = 0;
  std::thread performs([&] {
    for (int64_t step = 1; step < plan_.run.steps; ++step) {
      ASSERT_TRUE(kept.copy(step - 1, kernels_));
      ASSERT_TRUE(kernels_.update(0));
      kept.updated(step);
      done = step;
    }
  });
  while (done < 2) std::this_thread::yield();
  const int64_t at_least = done;
  ASSERT_TRUE(kept.leave(kernels_));
  performs.join();
  EXPECT_GE(newest(), at_least);
  const auto found = list_kept(output_, 0);
  ASSERT_FALSE(found.empty());
  const auto tensors = read_safetensors(
      fmt::format("{}/{}", step_folder(kept_, found.back().step), found.back().shard.file));
  ASSERT_TRUE(tensors) << tensors.error().text();
  for (const kernels::NamedTensor& tensor : tensors->tensors) {
    int64_t updates = 0;
    std::memcpy(&updates, tensor.bytes.data(), sizeof updates);
    EXPECT_EQ(updates, found.back().step) << "half an update";
  }
}

using KeptStatesDeathTest = KeptStates;

TEST_F(KeptStatesDeathTest, StepsFollowOneAnother) {
  EXPECT_DEATH(StateSnapshot("", 0, 7, 3), "rank 0 keeps its state nowhere");
  StateSnapshot kept(kept_, 0, 7, 3);
  EXPECT_DEATH(static_cast<void>(kept.copy(4, kernels_)),
               "a copy of step 4, and the kernels hold step 3");
  ASSERT_TRUE(kept.copy(3, kernels_));
  EXPECT_DEATH(static_cast<void>(kept.copy(3, kernels_)), "the kernels hold half an update");
  EXPECT_DEATH(kept.updated(3), "step 3 is done, and step 3 was the one before");
}

}  // namespace
}  // namespace tombolo::state
