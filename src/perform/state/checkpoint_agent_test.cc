// One rank's files, with the launcher's orders and without one.
#include "perform/state/checkpoint_agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "perform/state/state_snapshot.h"
#include "spec/plan/plan_file.h"
#include "support/folder_test.h"
#include "support/test_plan.h"

namespace tombolo::state {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Keeping : public FolderTest {
 protected:
  void SetUp() override { places_ = {folder_ + "/out", folder_ + "/checkpoints"}; }
  state::Manifest manifest_with(int64_t step) {
    const kernels::NamedTensor tensor{"layers.0.x", "U8", {4}, kernels::Payload(4)};
    state::Manifest manifest{.step = step, .seed = 7, .model = plan_.model};
    manifest.shards.push_back(
        *state::write_shard(places_.checkpoints, step, 0, 1, std::span(&tensor, 1)));
    return manifest;
  }

  const plan::Plan plan_ = make_test_plan({});
  StatePlaces places_;
  SystemClock clock_;
  std::vector<StateMessage> said_;  // read after finish()
};

TEST_F(Keeping, CommitsThenSaysSoThenRemovesWhatIsOlder) {
  CheckpointAgent keeper(
      places_, 0,
      [&](const StateMessage& message) -> Status {
        said_.push_back(message);
        return {};
      },
      clock_);
  for (const int64_t step : {2, 4}) keeper.take(Commit{manifest_with(step)});
  keeper.take(Retire{4, 1});
  keeper.finish();
  ASSERT_EQ(said_.size(), 2u);
  EXPECT_EQ(std::get<Committed>(said_[1]).step, 4);
  EXPECT_FALSE(fs::exists(state::step_folder(places_.checkpoints, 2)));
  EXPECT_EQ((*state::latest_checkpoint(places_.checkpoints))->manifest.step, 4);
  const Inventory stock = CheckpointAgent(places_, 0, {}, clock_).take_stock(true);
  EXPECT_EQ(stock.files.size(), 2u) << "a shard and the manifest";
}

TEST_F(Keeping, TellsOfWhatItCannotCommit) {
  state::Manifest manifest = manifest_with(2);
  fs::resize_file(state::step_folder(places_.checkpoints, 2) + "/" + manifest.shards[0].file, 3);
  CheckpointAgent keeper(
      places_, 0,
      [&](const StateMessage& message) -> Status {
        said_.push_back(message);
        return {};
      },
      clock_);
  keeper.take(Commit{manifest});
  keeper.finish();
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_THAT(std::get<Failure>(said_[0]).error.text(), HasSubstr("it has 3 bytes"));
  EXPECT_FALSE(*state::latest_checkpoint(places_.checkpoints)) << "it does not exist";
}

// A file size limit stands for the full disk: the manifest does not fit any more.
TEST_F(Keeping, MissesACheckpointThatTheDiskDoesNotTake) {
  const state::Manifest manifest = manifest_with(2);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small{64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  CheckpointAgent keeper(
      places_, 0,
      [&](const StateMessage& message) -> Status {
        said_.push_back(message);
        return {};
      },
      clock_);
  keeper.take(Commit{manifest});
  keeper.finish();
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_EQ(std::get<Missed>(said_[0]).step, 2);
  EXPECT_THAT(std::get<Missed>(said_[0]).error.text(),
              ::testing::AllOf(HasSubstr("manifest.json: cannot write it"),
                               HasSubstr("while writing the checkpoint of step 2")));
  EXPECT_FALSE(*state::latest_checkpoint(places_.checkpoints)) << "it does not exist";
}

TEST_F(Keeping, HandsOutItsFilesAndNoOthers) {
  const state::Manifest manifest = manifest_with(2);
  const state::Shard& shard = manifest.shards[0];
  FileRequest asked{.id = 3, .step = 2, .file = shard.file, .offset = shard.bytes - 4, .bytes = 4};
  EXPECT_EQ(answer(places_, 0, asked).bytes, link::Payload(4));
  asked.offset += 1;
  EXPECT_THAT(answer(places_, 0, asked).error, HasSubstr("it ends before byte"));
  asked.step = 9;
  EXPECT_THAT(answer(places_, 0, asked).error, HasSubstr("No such file"));
  places_.checkpoints.clear();
  EXPECT_THAT(answer(places_, 0, asked).error, HasSubstr("no checkpoints here"));
}

// What another run left under the same epoch must not be mistaken for this one's.
TEST_F(Keeping, AFreshRunForgetsWhatWasKept) {
  const kernels::NamedTensor tensor{"layers.0.x", "U8", {4}, kernels::Payload(4)};
  const std::string kept = state::kept_folder(places_.output, 1);
  const state::Shard shard = *state::write_shard(kept, 5, 0, 1, std::span(&tensor, 1));
  const state::KeptShard note{5, 0, shard};
  ASSERT_TRUE(
      write_file(state::step_folder(kept, 5) + "/rank-0.json", to_json(write_fields(note))));
  CheckpointAgent keeper(
      places_, 0, [](const StateMessage&) { return Status(); }, clock_);
  EXPECT_EQ(keeper.take_stock(false).kept, std::vector{note});
  EXPECT_TRUE(keeper.take_stock(true).kept.empty());
  EXPECT_FALSE(fs::exists(state::kept_folder(places_.output)));
}

TEST_F(Keeping, AnotherRunsCheckpointsAreNotWritten) {
  ManualClock clock;
  ASSERT_TRUE(make_directories(places_.checkpoints));
  const auto other = CheckpointLock::take(places_.checkpoints, "a:/run", clock);
  places_.run = "b:/run";
  CheckpointAgent keeper(
      places_, 0, [](const StateMessage&) { return Status(); }, clock);
  EXPECT_THAT(keeper.prepare(true).error().text(), HasSubstr("another run (a:/run)"));
  EXPECT_TRUE(keeper.prepare(false)) << "it takes none";
  places_.run = "a:/run";
  CheckpointAgent same(
      places_, 0, [](const StateMessage&) { return Status(); }, clock);
  EXPECT_TRUE(same.prepare(true));
}

TEST_F(Keeping, FoldersThatCannotBeAreNamedBeforeTheFirstStep) {
  ASSERT_TRUE(write_file(folder_ + "/file", "x"));
  CheckpointAgent keeper(
      {folder_ + "/file/out", ""}, 0, [](const StateMessage&) { return Status(); }, clock_);
  EXPECT_THAT(keeper.prepare(false).error().text(),
              HasSubstr(folder_ + "/file/out: cannot create"));
  CheckpointAgent good(
      places_, 0, [](const StateMessage&) { return Status(); }, clock_);
  EXPECT_TRUE(good.prepare(true));
  EXPECT_TRUE(fs::is_empty(places_.output)) << "the probe is gone";
  EXPECT_TRUE(fs::exists(places_.checkpoints));
}

}  // namespace
}  // namespace tombolo::state
