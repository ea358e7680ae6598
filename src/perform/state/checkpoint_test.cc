#include "perform/state/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "perform/state/checkpoint_writer.h"
#include "perform/state/state_reader.h"
#include "spec/plan/plan_file.h"
#include "support/test_plan.h"

namespace tombolo::state {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

kernels::NamedTensor number(const std::string& name, char value) {
  return {name, "U8", {1}, {static_cast<std::byte>(value)}};
}

class Checkpoints : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "checkpoint.XXXXXX").string();
    directory_ = mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(directory_); }

  // Two ranks with one tensor each, and the manifest.
  void take(int64_t step) {
    Manifest manifest{.step = step,
                      .seed = plan_.run.seed,
                      .plan_digest = plan::plan_digest(plan_),
                      .precision = std::string(to_name(plan_.training.precision)),
                      .model = plan_.model};
    for (int32_t rank = 0; rank < 2; ++rank) {
      const kernels::NamedTensor tensor = number(fmt::format("layers.{}.x", rank), 'a' + rank);
      auto shard = write_shard(directory_, step, rank, 1, {&tensor, 1});
      ASSERT_TRUE(shard) << shard.error().text();
      manifest.shards.push_back(*shard);
    }
    const auto status = commit_checkpoint(directory_, manifest);
    ASSERT_TRUE(status) << status.error().text();
    retire_checkpoints(directory_, step, 2);
  }
  FoundCheckpoint latest() {
    auto found = latest_checkpoint(directory_);
    CHECK(found && *found, "no checkpoint");
    return **found;
  }

  // The path of a rank's shard.
  std::string shard_of(int64_t step, int32_t rank) {
    for (const auto& entry : fs::directory_iterator(step_folder(directory_, step))) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(fmt::format("rank-{}.", rank))) return entry.path().string();
    }
    return "none";
  }

  plan::Plan plan_ = make_test_plan({.steps = 100});
  std::string directory_;
};

TEST_F(Checkpoints, AreFoundAndLoadedWhole) {
  take(10);
  const FoundCheckpoint found = latest();
  EXPECT_EQ(found.manifest.step, 10);
  EXPECT_EQ(found.folder, directory_ + "/step-00000010");
  EXPECT_EQ(found.manifest.model, plan_.model);
  EXPECT_TRUE(check_fits(found, plan_));
  const auto tensors = StateReader(found).read_all();
  ASSERT_TRUE(tensors) << tensors.error().text();
  ASSERT_EQ(tensors->size(), 2u);
  EXPECT_EQ((*tensors)[1].name, "layers.1.x");
  EXPECT_EQ((*tensors)[1].bytes, kernels::Payload{std::byte{'b'}});
}

// A mean on its way ends in the step that it was made for, or the checkpoint is refused.
TEST_F(Checkpoints, WithinAnOuterStepItsStepsStay) {
  plan::Plan plan = make_test_plan({.stages = 1, .replicas = 2, .steps = 100, .apart = true});
  std::vector<int64_t> split = layers_of_stages(plan);
  const auto fits = [&](int64_t step, const plan::Exchange& wrote, const plan::Exchange& reads) {
    plan.exchange = reads;
    const Manifest manifest{.step = step,
                            .seed = plan.run.seed,
                            .plan_digest = "any",
                            .precision = std::string(to_name(plan.training.precision)),
                            .model = plan.model,
                            .exchange = wrote,
                            .layers_of_stages = split};
    return check_fits({"there", manifest}, plan);
  };
  const plan::Exchange ten{.mode = plan::ExchangeMode::kLocal, .steps = 10, .delay = 4};
  plan::Exchange five = ten, slower = ten, sparse = ten;
  five.steps = 5;
  slower.delay = 6;
  sparse.mode = plan::ExchangeMode::kSparse;
  EXPECT_TRUE(fits(12, ten, ten)) << "of step 10, which ends after 14";
  EXPECT_TRUE(fits(12, ten, five));
  EXPECT_TRUE(fits(12, ten, slower));
  EXPECT_TRUE(fits(19, ten, ten));
  const Status within = fits(17, ten, five);
  ASSERT_FALSE(within);
  EXPECT_THAT(within.error().text(), HasSubstr("began in step 15"));
  EXPECT_TRUE(fits(14, ten, five)) << "between two";
  EXPECT_TRUE(fits(12, ten, sparse));
  // Fragments are of the stages that a run has.
  plan::Exchange parts = ten;
  parts.fragments = 2;
  EXPECT_TRUE(fits(12, parts, parts));
  split = {1, 1};
  EXPECT_TRUE(fits(12, ten, ten)) << "all groups at once";
  EXPECT_THAT(fits(12, parts, parts).error().text(), HasSubstr("of stages of 1, 1 layers"));
}

TEST_F(Checkpoints, WithoutAManifestThereIsNone) {
  const kernels::NamedTensor tensor = number("layers.0.x", 1);
  ASSERT_TRUE(write_shard(directory_, 5, 0, 1, {&tensor, 1}));
  EXPECT_FALSE(latest_checkpoint(directory_)->has_value());
  EXPECT_FALSE(latest_checkpoint(directory_ + "/nowhere")->has_value());
  take(4);
  EXPECT_EQ(latest().manifest.step, 4) << "step 5 was never finished";
}

TEST_F(Checkpoints, TheNewestTwoAreKept) {
  for (const int64_t step : {2, 4, 6}) take(step);
  EXPECT_FALSE(fs::exists(step_folder(directory_, 2)));
  EXPECT_TRUE(fs::exists(step_folder(directory_, 4)));
  EXPECT_EQ(latest().manifest.step, 6);
}

TEST_F(Checkpoints, DamageIsFoundAndTheFileNamed) {
  take(10);
  const std::string shard = shard_of(10, 1);
  std::string bytes = *read_file(shard);
  bytes.back() ^= 1;
  ASSERT_TRUE(write_file(shard, bytes));
  const FoundCheckpoint found = latest();
  const auto flipped = StateReader(found).read("layers.1.x");
  ASSERT_FALSE(flipped);
  EXPECT_THAT(flipped.error().text(),
              HasSubstr(shard + ": the shard is damaged: the bytes of the tensor layers.1.x"));
  EXPECT_THAT(flipped.error().text(), HasSubstr("an older checkpoint"));
  EXPECT_EQ(flipped.error().code, ErrorCode::kUnusable);
  EXPECT_TRUE(StateReader(found).read("layers.0.x")) << "of another shard";
  EXPECT_THAT(verify_checkpoint(found).error().text(),
              HasSubstr(shard + ": the shard is damaged: its digest"));

  bytes.pop_back();
  ASSERT_TRUE(write_file(shard, bytes));
  EXPECT_THAT(verify_checkpoint(found).error().text(), HasSubstr("it has"));
  EXPECT_THAT(StateReader(found).read("layers.1.x").error().text(), HasSubstr("it has"));
  fs::remove(shard);
  EXPECT_THAT(verify_checkpoint(found).error().text(), HasSubstr("cannot be read"));
  EXPECT_THAT(StateReader(found).read("layers.1.x").error().text(), HasSubstr("cannot be read"));
}

TEST_F(Checkpoints, OfAnotherModelAreRefusedByName) {
  take(10);
  plan::Plan other = plan_;
  other.model.hidden = 64;
  EXPECT_THAT(check_fits(latest(), other).error().text(),
              HasSubstr("is of another model: it has hidden = 0, this one has 64"));
  other = plan_;
  other.run.seed = 8;
  EXPECT_THAT(check_fits(latest(), other).error().text(), HasSubstr("is of seed 7"));
  other = plan_;
  other.run.steps = 10;
  EXPECT_THAT(check_fits(latest(), other).error().text(), HasSubstr("nothing is left"));
}

TEST_F(Checkpoints, AManifestMayNotNameFilesElsewhere) {
  take(10);
  const std::string path = step_folder(directory_, 10) + "/manifest.json";
  Manifest manifest = latest().manifest;
  manifest.shards[0].file = "../../x";
  ASSERT_TRUE(write_file(path, manifest_text(manifest)));
  EXPECT_THAT(latest_checkpoint(directory_).error().text(), HasSubstr("same folder"));
}

// Whatever of it changes, it is not what was written.
TEST_F(Checkpoints, AManifestKnowsOfEachOfItsBytes) {
  take(10);
  const std::string path = step_folder(directory_, 10) + "/manifest.json";
  const std::string text = *read_file(path);
  for (size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] ^= 4;  // digits and letters stay such ones
    EXPECT_FALSE(parse_manifest(changed, path)) << "byte " << at;
  }
  std::string other_seed = text;
  other_seed.replace(other_seed.find("\"seed\": \"7\""), 11, "\"seed\": \"8\"");
  EXPECT_THAT(parse_manifest_to_resume(other_seed, path).error().text(),
              AllOf(HasSubstr(path + ": the manifest is damaged"), HasSubstr("older checkpoint")));
}

// Version 2 has no digest.
TEST_F(Checkpoints, OfTheVersionBeforeAreRead) {
  take(10);
  const std::string path = step_folder(directory_, 10) + "/manifest.json";
  const Manifest written = latest().manifest;
  std::string text = *read_file(path);
  text.replace(text.find("\"tombolo_checkpoint\": 3"), 23, "\"tombolo_checkpoint\": 2");
  EXPECT_THAT(parse_manifest(text, path).error().text(), HasSubstr("digest"));
  text.erase(text.rfind(",\n  \"digest\""), std::string::npos);
  text += "\n}\n";
  ASSERT_TRUE(write_file(path, text));
  EXPECT_EQ(latest().manifest, written);
  text.replace(text.find("\"tombolo_checkpoint\": 2"), 23, "\"tombolo_checkpoint\": 4");
  EXPECT_THAT(parse_manifest(text, path).error().text(),
              HasSubstr("this program reads the versions 2 and 3"));
}

TEST_F(Checkpoints, ARunThatGoesOnPassesOverAManifestThatCannotBeRead) {
  for (const int64_t step : {4, 6}) take(step);
  std::string passed_over;
  const auto latest_readable = [&] {
    return latest_readable_checkpoint(directory_, INT64_MAX,
                                      [&](const Error& damage, const std::string& instead) {
                                        passed_over += damage.message + " -> " + instead + "\n";
                                      });
  };
  EXPECT_EQ((*latest_readable())->manifest.step, 6);
  EXPECT_EQ(passed_over, "");
  ASSERT_TRUE(write_file(step_folder(directory_, 6) + "/manifest.json", "{"));
  EXPECT_EQ((*latest_readable())->manifest.step, 4);
  EXPECT_THAT(passed_over, HasSubstr(step_folder(directory_, 6) + "/manifest.json"));
  EXPECT_THAT(passed_over, HasSubstr("-> " + step_folder(directory_, 4) + "\n"));
  ASSERT_TRUE(write_file(step_folder(directory_, 4) + "/manifest.json", "{"));
  EXPECT_THAT(latest_readable().error().text(), HasSubstr(step_folder(directory_, 6)));
  EXPECT_THAT(latest_readable().error().text(), HasSubstr("an older checkpoint: remove"));
}

// A rank of an ended epoch may still be writing, on a host that cannot be reached.
TEST_F(Checkpoints, AZombiesShardReplacesNothing) {
  take(10);
  const std::string committed = shard_of(10, 1);
  const std::string before = *read_file(committed);
  const kernels::NamedTensor other = number("layers.1.x", 'z');
  const auto late = write_shard(directory_, 10, 1, 0, {&other, 1});
  ASSERT_TRUE(late) << late.error().text();
  EXPECT_EQ(late->epoch, 0) << "whoever commits sees that it is of another epoch";
  EXPECT_EQ(*read_file(committed), before);
  EXPECT_TRUE(verify_checkpoint(latest()));
  const kernels::NamedTensor same = number("layers.1.x", 'b');
  const auto again = write_shard(directory_, 10, 1, 0, {&same, 1});
  ASSERT_TRUE(again);
  EXPECT_EQ(*read_file(committed), before) << "the same bytes have the same name";
}

// It received Commit, was suspended, and continues when a later epoch has written the same step and
// removed what the epoch before had left.
TEST_F(Checkpoints, AZombieCommitsNothing) {
  take(10);
  const FoundCheckpoint found = latest();
  Manifest late = found.manifest;
  late.shards[1].file = "rank-1.gone.safetensors";
  EXPECT_THAT(commit_checkpoint(directory_, late, 1).error().text(),
              HasSubstr("rank-1.gone.safetensors: it was written, and is gone"));
  EXPECT_EQ(latest().manifest, found.manifest);
  EXPECT_TRUE(commit_checkpoint(directory_, found.manifest, 1)) << "again, by another rank";
}

// Ranks on hosts of their own commit what they do not have, too, and what they have must be whole.
TEST_F(Checkpoints, AreCommittedWhereAShardIsElsewhereButNotWhereItIsTorn) {
  take(10);
  FoundCheckpoint found = latest();
  fs::remove(shard_of(10, 1));
  EXPECT_TRUE(commit_checkpoint(directory_, found.manifest));
  const std::string torn = shard_of(10, 0);
  fs::resize_file(torn, static_cast<uintmax_t>(found.manifest.shards[0].bytes - 1));
  const Status refused = commit_checkpoint(directory_, found.manifest);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr(torn + ": it has"));
  EXPECT_THAT(refused.error().text(), HasSubstr("while writing the checkpoint of step 10"));
}

TEST_F(Checkpoints, OldOnesGoOnlyWhereTheNewOneIs) {
  for (const int64_t step : {2, 4}) take(step);
  retire_checkpoints(directory_, 6, 1);
  EXPECT_TRUE(fs::exists(step_folder(directory_, 2))) << "step 6 does not exist here";
  const kernels::NamedTensor tensor = number("layers.0.x", 1);
  ASSERT_TRUE(write_shard(directory_, 3, 0, 1, {&tensor, 1})) << "never finished";
  take(6);
  retire_checkpoints(directory_, 4, 1);
  EXPECT_FALSE(fs::exists(step_folder(directory_, 2)));
  EXPECT_FALSE(fs::exists(step_folder(directory_, 3)));
  EXPECT_TRUE(fs::exists(step_folder(directory_, 4)));
  EXPECT_EQ(latest().manifest.step, 6) << "what is newer stays";
}

TEST_F(Checkpoints, AreListedByTheNewestStep) {
  for (const int64_t step : {2, 4}) take(step);
  const auto all = list_checkpoints(directory_, 1);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0], (StepFile{4, "manifest.json", all[0].bytes}));
  EXPECT_EQ(all[1].file, latest().manifest.shards[0].file);
  EXPECT_EQ(all[1].bytes, latest().manifest.shards[0].bytes);
  EXPECT_EQ(list_checkpoints(directory_, 9).size(), 6u);
  const kernels::NamedTensor tensor = number("layers.0.x", 1);
  for (const int64_t step : {6, 8, 10})
    ASSERT_TRUE(write_shard(directory_, step, 0, 1, {&tensor, 1})) << "never finished";
  const auto with_others = list_checkpoints(directory_, 1);
  ASSERT_EQ(with_others.size(), 4u);
  EXPECT_EQ(with_others[0].step, 10);
  EXPECT_EQ(with_others[1].step, 4) << "is not hidden";
  EXPECT_TRUE(list_checkpoints(directory_ + "/nowhere", 9).empty());
}

// RLIMIT_FSIZE makes writes beyond it fail as a full disk does.
TEST_F(Checkpoints, AFullDiskLeavesNothingHalfWritten) {
  take(10);
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const kernels::NamedTensor large{"layers.0.x", "U8", {1 << 16}, kernels::Payload(1 << 16)};
  const auto shard = write_shard(directory_, 20, 0, 1, {&large, 1});
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(shard);
  EXPECT_EQ(shard.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(shard.error().text(), HasSubstr("while writing the checkpoint of step 20"));
  EXPECT_TRUE(fs::is_empty(step_folder(directory_, 20)));
  const kernels::NamedTensor little{"layers.0.x", "U8", {1}, kernels::Payload(1)};
  ASSERT_TRUE(write_shard(directory_, 30, 0, 1, {&little, 1})) << "whole, and nobody heard of it";
  discard_unfinished(directory_, 20, {30});
  EXPECT_FALSE(fs::exists(step_folder(directory_, 20)));
  EXPECT_TRUE(fs::exists(step_folder(directory_, 30))) << "another host may have its manifest";
  discard_unfinished(directory_, 20);
  EXPECT_FALSE(fs::exists(step_folder(directory_, 30)));
  discard_unfinished(directory_, 10);
  EXPECT_EQ(latest().manifest.step, 10) << "the finished one stays";
  ASSERT_TRUE(write_shard(directory_, 30, 0, 1, {&little, 1}));
  for (const int64_t step : {10, 30}) discard_step(directory_, step);
  EXPECT_FALSE(fs::exists(step_folder(directory_, 30)));
  EXPECT_EQ(latest().manifest.step, 10) << "the same";
  EXPECT_TRUE(verify_checkpoint(latest()));
}

using CheckpointsDeathTest = Checkpoints;

TEST_F(CheckpointsDeathTest, SomebodyWritesThemAndSomeAreKept) {
  ManualClock clock;
  EXPECT_DEATH(CheckpointWriter({}, clock), "no writer of the checkpoints");
  EXPECT_DEATH(retire_checkpoints("checkpoints", 3, 0), "0 checkpoints are kept");
}

}  // namespace
}  // namespace tombolo::state
