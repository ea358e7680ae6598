// A launcher's coordinator and ranks on hosts of their own, each with folders that no other sees;
// messages are delivered at once, in one thread.
#include "perform/state/checkpoint_coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>

#include "base/file_digest.h"
#include "perform/kernels/emulated_kernels.h"
#include "perform/state/checkpoint_agent.h"
#include "perform/state/state_reader.h"
#include "support/folder_test.h"
#include "support/test_plan.h"

namespace tombolo::state {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Hosts : public FolderTest {
 protected:
  plan::Plan plan_of(int stages, int64_t steps = 20) const {
    return make_test_plan({.stages = stages,
                           .steps = static_cast<int>(steps),
                           .checkpoints = folder_ + "/host-0/checkpoints",
                           .every = 2});
  }
  StatePlaces host(int32_t rank) const {
    const std::string own = fmt::format("{}/host-{}", folder_, rank);
    return {own + "/out", own + "/checkpoints"};
  }
  CheckpointCoordinator::Options options(const plan::Plan& plan, bool resume) {
    fs::create_directories(host(0).output);
    auto found = state::latest_checkpoint(plan.checkpoint->directory);
    CHECK(found.has_value(), "{}", found.error().text());
    return {.output = host(0).output,
            .epoch = 1,
            .resume = resume,
            .elsewhere = true,
            .newest = *found,
            .tell = [this](int32_t rank,
                           const StateMessage& message) { told_.emplace_back(rank, message); },
            .note = [this](const std::string& note) { notes_ += note + "\n"; }};
  }

  // Delivers messages to the ranks, and their answers to the coordinator.
  void carry(CheckpointCoordinator& desk) {
    while (!told_.empty()) {
      const auto [rank, message] = std::move(told_.front());
      told_.pop_front();
      Status heard;
      if (const auto* survey = std::get_if<Survey>(&message)) {
        CheckpointAgent keeper(
            host(rank), rank, [](const StateMessage&) { return Status(); }, clock_);
        heard = desk.add(rank, keeper.take_stock(survey->fresh));
      } else if (const auto* commit = std::get_if<Commit>(&message)) {
        heard = state::commit_checkpoint(host(rank).checkpoints, commit->manifest, rank);
        if (heard && rank != silent_) heard = desk.committed(rank, commit->manifest.step);
      } else if (const auto* drop = std::get_if<Drop>(&message)) {
        state::discard_step(host(rank).checkpoints, drop->step);
      } else if (const auto* retire = std::get_if<Retire>(&message)) {
        state::retire_checkpoints(host(rank).checkpoints, retire->step, retire->keep);
      } else if (const auto* asked = std::get_if<FileRequest>(&message)) {
        heard = desk.came(rank, answer(host(rank), rank, *asked));
      } else if (const auto* piece = std::get_if<FilePiece>(&message)) {
        fetchers_.at(rank)->take(*piece);
      }
      ASSERT_TRUE(heard) << heard.error().text();
    }
  }
  Result<CheckpointCoordinator::Beginning> gather(CheckpointCoordinator& desk,
                                                  const plan::Plan& plan) {
    for (size_t r = 0; r < plan.ranks.size(); ++r)
      told_.emplace_back(static_cast<int32_t>(r), desk.survey());
    carry(desk);
    auto begin = TRY(desk.beginning());
    carry(desk);
    if (!begin) begin = TRY(desk.beginning());
    CHECK(begin.has_value(), "nobody knows with what to begin");
    return *begin;
  }
  // All ranks write their shards of a step, after that many updates.
  void write(CheckpointCoordinator& desk, const plan::Plan& plan, int64_t step) {
    for (const layout::Placement& place : plan.ranks) {
      kernels::EmulatedKernels kernels(plan, place.rank, clock_);
      for (int64_t i = 0; i < step; ++i) ASSERT_TRUE(kernels.update(place.stage));
      const auto shard =
          state::write_shard(host(place.rank).checkpoints, step, place.rank, 1, *kernels.save());
      ASSERT_TRUE(shard) << shard.error().text();
      desk.add(place.rank, step, *shard);
    }
    carry(desk);
  }
  // A rank's life until its kernels hold the state. Updates that they count, or what went wrong.
  Result<int64_t> load(CheckpointCoordinator& desk, const plan::Plan& plan, int32_t rank,
                       const CheckpointCoordinator::Beginning& begin) {
    auto& fetcher = fetchers_[rank];
    fetcher = std::make_unique<PieceFetcher>(
        [&, rank](const StateMessage& message) -> Status {
          TRY(desk.asked(rank, std::get<FileRequest>(message)));
          carry(desk);
          return {};
        },
        clock_);
    const state::FoundCheckpoint found{
        state::step_folder(host(rank).checkpoints, begin.state->step), *begin.state};
    state::StateReader reader(found, [&](const state::Shard& shard, int64_t at, int64_t bytes) {
      return fetcher->fetch(
          {.step = found.manifest.step, .file = shard.file, .offset = at, .bytes = bytes});
    });
    kernels::EmulatedKernels kernels(plan, rank, clock_);
    TRY(kernels.load([&](const std::string& name) { return reader.read(name); }));
    read_ += reader.bytes_read();
    fetched_ += reader.bytes_fetched();
    return kernels.updates();
  }
  std::vector<int64_t> steps_on(int32_t rank) {
    std::vector<int64_t> steps;
    for (const state::StepFile& file : state::list_checkpoints(host(rank).checkpoints, 99)) {
      if (file.file == state::kManifestName) steps.push_back(file.step);
    }
    return steps;
  }

  ManualClock clock_;
  std::deque<std::pair<int32_t, StateMessage>> told_;
  std::map<int32_t, std::unique_ptr<PieceFetcher>> fetchers_;
  std::string notes_;
  int32_t silent_ = -1;  // commits, and is not heard
  int64_t read_ = 0, fetched_ = 0;
};

TEST_F(Hosts, HaveTheirOwnShardsAndAllTheManifest) {
  const plan::Plan plan = plan_of(3);
  CheckpointCoordinator desk(plan, options(plan, false));
  EXPECT_FALSE(gather(desk, plan)->state) << "from the beginning";
  for (const int64_t step : {2, 4, 6}) write(desk, plan, step);
  for (int32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(steps_on(rank), (std::vector<int64_t>{6, 4})) << "two are kept, on host " << rank;
    EXPECT_EQ(state::list_checkpoints(host(rank).checkpoints, 1).size(), 2u)
        << "one shard and the manifest";
  }
  EXPECT_EQ(desk.checkpoint()->manifest.step, 6);

  CheckpointCoordinator again(plan, options(plan, true));
  const auto begin = gather(again, plan);
  ASSERT_TRUE(begin) << begin.error().text();
  EXPECT_EQ(begin->first_iteration, 7);
  for (int32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(*load(again, plan, rank, *begin), 6);
  EXPECT_EQ(fetched_, 0);
  EXPECT_EQ(read_, 3 * 8) << "each its own layer, of eight bytes";
}

// Nothing older goes before the newest is on every host.
TEST_F(Hosts, KeepWhatIsOlderUntilTheLastOneHasCommitted) {
  const plan::Plan plan = plan_of(2);
  CheckpointCoordinator desk(plan, options(plan, false));
  ASSERT_TRUE(gather(desk, plan));
  for (const int64_t step : {2, 4}) write(desk, plan, step);
  silent_ = 1;
  write(desk, plan, 6);
  EXPECT_FALSE(desk.idle());
  EXPECT_EQ(desk.checkpoint()->manifest.step, 4);
  for (const int32_t rank : {0, 1}) EXPECT_EQ(steps_on(rank), (std::vector<int64_t>{6, 4, 2}));
  ASSERT_TRUE(desk.committed(1, 6));
  carry(desk);
  EXPECT_TRUE(desk.idle());
  for (const int32_t rank : {0, 1}) EXPECT_EQ(steps_on(rank), (std::vector<int64_t>{6, 4}));
}

// Where a shard did not fit the others go, also one that was written later; where a manifest did not
// they stay. What is older stays in both.
TEST_F(Hosts, MissACheckpointTogether) {
  const plan::Plan plan = plan_of(2);
  CheckpointCoordinator desk(plan, options(plan, false));
  ASSERT_TRUE(gather(desk, plan));
  for (const int64_t step : {2, 4}) write(desk, plan, step);
  EXPECT_TRUE(desk.missed(6));
  EXPECT_FALSE(desk.missed(6)) << "people hear of it once";
  write(desk, plan, 6);
  EXPECT_TRUE(desk.idle());
  for (const int32_t rank : {0, 1}) {
    EXPECT_EQ(steps_on(rank), (std::vector<int64_t>{4, 2}));
    EXPECT_FALSE(fs::exists(state::step_folder(host(rank).checkpoints, 6)));
  }
  silent_ = 1;
  write(desk, plan, 8);
  EXPECT_TRUE(desk.missed(8));
  carry(desk);
  EXPECT_TRUE(desk.idle());
  EXPECT_EQ(desk.checkpoint()->manifest.step, 4);
  EXPECT_EQ(steps_on(0), (std::vector<int64_t>{8, 4, 2}));
  EXPECT_TRUE(desk.complete().contains(8)) << "it may be gone on from";
  silent_ = -1;
  write(desk, plan, 10);
  EXPECT_EQ(steps_on(0), (std::vector<int64_t>{10, 8}));
}

// The launcher was lost before all shards were reported to it, or before it sent Commit; the run
// resumes from a later state that ranks kept.
TEST_F(Hosts, DropShardsOfUnfinishedCheckpointsWhenADiskIsFull) {
  const plan::Plan plan = plan_of(2);
  {
    CheckpointCoordinator desk(plan, options(plan, false));
    ASSERT_TRUE(gather(desk, plan));
    write(desk, plan, 8);
  }
  for (const int64_t step : {4, 6, 10}) {
    kernels::EmulatedKernels kernels(plan, 1, clock_);
    ASSERT_TRUE(state::write_shard(host(1).checkpoints, step, 1, 1, *kernels.save()));
  }
  CheckpointCoordinator::Options again = options(plan, false);
  again.epoch = 2;
  again.goes_on = true;
  CheckpointCoordinator desk(plan, again);
  ASSERT_TRUE(gather(desk, plan));
  for (const int64_t step : {4, 6, 10})
    EXPECT_TRUE(fs::exists(state::step_folder(host(1).checkpoints, step)));
  EXPECT_TRUE(desk.missed(12));
  carry(desk);
  for (const int64_t step : {4, 6})
    EXPECT_FALSE(fs::exists(state::step_folder(host(1).checkpoints, step)));
  // This epoch writes it again, and some ranks may have.
  EXPECT_TRUE(fs::exists(state::step_folder(host(1).checkpoints, 10)));
  EXPECT_EQ(steps_on(1), (std::vector<int64_t>{8})) << "what exists stays";
}

// Rank 1 has the shard, and alone may answer for it.
TEST_F(Hosts, AnswerOnlyWhatTheyWereAsked) {
  const plan::Plan plan = plan_of(2);
  {
    CheckpointCoordinator desk(plan, options(plan, false));
    ASSERT_TRUE(gather(desk, plan));
    write(desk, plan, 2);
  }
  CheckpointCoordinator desk(plan, options(plan, true));
  const auto begin = gather(desk, plan);
  ASSERT_TRUE(begin) << begin.error().text();
  const Shard& shard = begin->state->shards[1];
  ASSERT_TRUE(desk.asked(0, {.id = 3, .step = 2, .file = shard.file, .bytes = 4}));
  ASSERT_EQ(told_.size(), 1u);
  const auto asked = std::get<FileRequest>(told_.front().second);
  EXPECT_EQ(told_.front().first, 1);
  told_.clear();
  EXPECT_FALSE(desk.came(0, {.id = asked.id, .bytes = link::Payload(4)}));
  EXPECT_TRUE(told_.empty());
  EXPECT_TRUE(desk.came(1, {.id = asked.id, .bytes = link::Payload(4)}));
  EXPECT_EQ(std::get<FilePiece>(told_.front().second).id, 3);
  told_.clear();
  EXPECT_FALSE(desk.came(1, {.id = asked.id, .bytes = link::Payload(4)})) << "it came already";
}

// One stage instead of two: rank 0 needs what is on the host of rank 1. And the other way round.
TEST_F(Hosts, FetchWhatTheyLackForAnotherSplit) {
  const plan::Plan two = plan_of(2);
  CheckpointCoordinator desk(two, options(two, false));
  ASSERT_TRUE(gather(desk, two));
  write(desk, two, 4);

  plan::Plan swapped = two;  // rank 0 holds the last layer now
  std::swap(swapped.stages[0].slice, swapped.stages[1].slice);
  CheckpointCoordinator again(swapped, options(swapped, true));
  const auto begin = gather(again, swapped);
  ASSERT_TRUE(begin) << begin.error().text();
  for (const int32_t rank : {0, 1}) {
    const auto updates = load(again, swapped, rank, *begin);
    ASSERT_TRUE(updates) << updates.error().text();
    EXPECT_EQ(*updates, 4);
  }
  EXPECT_EQ(fetched_, 2 * 8) << "what each needs, and no more";
  EXPECT_EQ(read_, 0);
}

TEST_F(Hosts, GoOnWhereTheLaunchersHostHasNothing) {
  const plan::Plan plan = plan_of(2);
  {
    CheckpointCoordinator desk(plan, options(plan, false));
    ASSERT_TRUE(gather(desk, plan));
    write(desk, plan, 4);
  }
  // Rank 1's host has all shards, and rank 0's is a new one.
  const std::string there = state::step_folder(host(1).checkpoints, 4);
  fs::copy(state::step_folder(host(0).checkpoints, 4), there,
           fs::copy_options::skip_existing | fs::copy_options::recursive);
  fs::remove_all(host(0).checkpoints);
  CheckpointCoordinator fresh(plan, options(plan, false));
  EXPECT_THAT(gather(fresh, plan).error().text(),
              HasSubstr("an earlier run left a checkpoint of step 4 on the host of rank 1"));
  CheckpointCoordinator again(plan, options(plan, true));
  const auto begin = gather(again, plan);
  ASSERT_TRUE(begin) << begin.error().text();
  EXPECT_EQ(*load(again, plan, 0, *begin), 4);
  EXPECT_EQ(fetched_, 8);
  fs::remove_all(there);
  CheckpointCoordinator none(plan, options(plan, true));
  EXPECT_THAT(gather(none, plan).error().text(), HasSubstr("no checkpoint to resume from, on any"));
}

TEST_F(Hosts, NameWhatIsMissingTornOrDamaged) {
  const plan::Plan plan = plan_of(2);
  CheckpointCoordinator desk(plan, options(plan, false));
  ASSERT_TRUE(gather(desk, plan));
  for (const int64_t step : {2, 4}) write(desk, plan, step);
  const state::Shard shard = desk.checkpoint()->manifest.shards[1];
  const std::string path = state::step_folder(host(1).checkpoints, 4) + "/" + shard.file;
  std::string bytes = *read_file(path);
  bytes.back() ^= 1;
  ASSERT_TRUE(write_file(path, bytes));
  CheckpointCoordinator flipped(plan, options(plan, true));
  const auto begin = gather(flipped, plan);
  ASSERT_TRUE(begin) << "its size is right";
  EXPECT_THAT(load(flipped, plan, 1, *begin).error().text(),
              HasSubstr(path + ": the shard is damaged"));
  fs::resize_file(path, 9);
  {
    CheckpointCoordinator torn(plan, options(plan, true));
    const auto instead = gather(torn, plan);
    ASSERT_TRUE(instead) << instead.error().text();
    EXPECT_EQ(instead->first_iteration, 3);
    EXPECT_EQ(torn.checkpoint()->manifest.step, 2);
    EXPECT_THAT(notes_, HasSubstr("on the host of rank 1 the shard is damaged: it has 9 bytes"));
    EXPECT_THAT(notes_, HasSubstr("; continuing from the older checkpoint " +
                                  state::step_folder(host(0).checkpoints, 2) + "\n"));
  }
  fs::remove(path);
  CheckpointCoordinator missing(plan, options(plan, true));
  EXPECT_THAT(gather(missing, plan).error().text(), HasSubstr("no host has this shard"));
  // As the messages say: the older one is as good as it was.
  fs::remove_all(state::step_folder(host(0).checkpoints, 4));
  CheckpointCoordinator older(plan, options(plan, true));
  const auto before = gather(older, plan);
  ASSERT_TRUE(before) << before.error().text();
  EXPECT_EQ(before->first_iteration, 3);
  for (const int32_t rank : {0, 1}) EXPECT_EQ(*load(older, plan, rank, *before), 2);
}

// Each of two hosts is asked for the older manifest; if none has one, the answer is the damage.
TEST_F(Hosts, FallBackToWhatOthersHaveOrNameTheDamage) {
  const plan::Plan plan = plan_of(2);
  CheckpointCoordinator desk(plan, options(plan, false));
  ASSERT_TRUE(gather(desk, plan));
  for (const int64_t step : {2, 4}) write(desk, plan, step);
  const state::Shard shard = desk.checkpoint()->manifest.shards[1];
  fs::resize_file(state::step_folder(host(1).checkpoints, 4) + "/" + shard.file, 9);
  EXPECT_TRUE(desk.has_older(4));
  // The launcher's host lacks the older one; its shard is on rank 1's, too.
  const std::string here = state::step_folder(host(0).checkpoints, 2);
  const std::string there = state::step_folder(host(1).checkpoints, 2);
  fs::copy(here, there, fs::copy_options::skip_existing | fs::copy_options::recursive);
  fs::remove_all(here);
  CheckpointCoordinator again(plan, options(plan, true));
  const auto begin = gather(again, plan);
  ASSERT_TRUE(begin) << begin.error().text();
  EXPECT_EQ(begin->first_iteration, 3);
  fs::remove_all(there);
  CheckpointCoordinator none(plan, options(plan, true));
  EXPECT_THAT(gather(none, plan).error().text(), HasSubstr("the shard is damaged: it has 9 bytes"));
}

// A shard of the newest is torn, and the manifest before it: the one before that.
TEST_F(Hosts, FallBackByMoreThanOneDamagedCheckpoint) {
  plan::Plan plan = plan_of(2);
  plan.checkpoint->keep = 3;
  CheckpointCoordinator desk(plan, options(plan, false));
  ASSERT_TRUE(gather(desk, plan));
  for (const int64_t step : {2, 4, 6}) write(desk, plan, step);
  const state::Shard shard = desk.checkpoint()->manifest.shards[1];
  fs::resize_file(state::step_folder(host(1).checkpoints, 6) + "/" + shard.file, 9);
  const std::string damaged =
      state::step_folder(host(0).checkpoints, 4) + "/" + state::kManifestName;
  fs::resize_file(damaged, 9);
  EXPECT_TRUE(desk.has_older(6));
  CheckpointCoordinator again(plan, options(plan, true));
  const auto begin = gather(again, plan);
  ASSERT_TRUE(begin) << begin.error().text();
  EXPECT_EQ(begin->first_iteration, 3);
  EXPECT_THAT(notes_, HasSubstr("on the host of rank 1 the shard is damaged"));
  EXPECT_THAT(notes_, HasSubstr(damaged));
}

// This host has none of it, and what the first rank with a manifest sends is no such thing.
TEST_F(Hosts, ReadAManifestThatIsDamagedOnAnother) {
  const plan::Plan plan = plan_of(3);
  CheckpointCoordinator desk(plan, options(plan, false));
  ASSERT_TRUE(gather(desk, plan));
  for (const int64_t step : {2, 4}) write(desk, plan, step);
  const auto manifest = [&](int32_t rank, int64_t step) {
    return state::step_folder(host(rank).checkpoints, step) + "/" + state::kManifestName;
  };
  for (const int64_t step : {2, 4}) {
    fs::copy(state::step_folder(host(0).checkpoints, step),
             state::step_folder(host(2).checkpoints, step),
             fs::copy_options::skip_existing | fs::copy_options::recursive);
  }
  fs::remove_all(host(0).checkpoints);
  fs::resize_file(manifest(1, 4), 9);
  CheckpointCoordinator again(plan, options(plan, true));
  const auto begin = gather(again, plan);
  ASSERT_TRUE(begin) << begin.error().text();
  EXPECT_EQ(begin->first_iteration, 5);
  EXPECT_THAT(notes_, HasSubstr("; reading that of rank 2\n"));
  fs::resize_file(manifest(2, 4), 9);
  CheckpointCoordinator older(plan, options(plan, true));
  const auto before = gather(older, plan);
  ASSERT_TRUE(before) << before.error().text();
  EXPECT_EQ(before->first_iteration, 3);
}

// The host of a datacenter that takes part no more is away, with what only its own ranks would read.
TEST_F(Hosts, ADatacenterThatLeftTakesItsShardAlong) {
  const auto plan_in = [&](int datacenters) {
    plan::Plan plan = make_test_plan({.stages = 1,
                                      .replicas = datacenters,
                                      .steps = 20,
                                      .checkpoints = folder_ + "/host-0/checkpoints",
                                      .every = 2,
                                      .ring = datacenters > 2,
                                      .apart = true});
    plan.exchange = plan::Exchange{.mode = plan::ExchangeMode::kSparse};
    return plan;
  };
  const plan::Plan three = plan_in(3), two = plan_in(2);
  CheckpointCoordinator before(three, options(three, false));
  ASSERT_TRUE(gather(before, three));
  write(before, three, 2);
  CheckpointCoordinator with_two(two, options(two, true));
  const auto begin = gather(with_two, two);
  ASSERT_TRUE(begin) << begin.error().text();
  EXPECT_EQ(begin->state->shards.size(), 2u);
  EXPECT_THAT(notes_, HasSubstr("a datacenter that takes part no more"));
  EXPECT_EQ(*load(with_two, two, 1, *begin), 2);
  // One that is still there is missed.
  fs::remove_all(host(1).checkpoints);
  CheckpointCoordinator lacking(two, options(two, true));
  EXPECT_THAT(gather(lacking, two).error().text(), HasSubstr("no host has this shard"));
}

// Killed when all shards were there, and no manifest.
TEST_F(Hosts, ShardsWithoutAManifestAreNoCheckpoint) {
  const plan::Plan plan = plan_of(2);
  CheckpointCoordinator desk(plan, options(plan, false));
  ASSERT_TRUE(gather(desk, plan));
  write(desk, plan, 2);
  for (const int32_t rank : {0, 1}) {
    kernels::EmulatedKernels kernels(plan, rank, clock_);
    ASSERT_TRUE(state::write_shard(host(rank).checkpoints, 4, rank, 1, *kernels.save()));
  }
  CheckpointCoordinator again(plan, options(plan, true));
  EXPECT_EQ(gather(again, plan)->first_iteration, 3);
}

TEST_F(Hosts, AZombiesShardIsRefusedAloud) {
  const plan::Plan plan = plan_of(2);
  CheckpointCoordinator desk(plan, options(plan, false));
  kernels::EmulatedKernels kernels(plan, 0, clock_);
  desk.add(0, 4, *state::write_shard(host(0).checkpoints, 4, 0, 0, *kernels.save()));
  EXPECT_THAT(notes_, HasSubstr("rank 0 of step 4 was refused: it is of epoch 0"));
  EXPECT_TRUE(told_.empty());
}

TEST_F(Hosts, SendTheirPartsOfTheTraceToTheLauncher) {
  const plan::Plan plan = plan_of(2);
  CheckpointCoordinator desk(plan, options(plan, false));
  ASSERT_TRUE(gather(desk, plan));
  const std::string part(3 * kPieceMax + 5, 'x');
  for (const int32_t rank : {0, 1}) {
    fs::create_directories(host(rank).output);
    const std::string path = rank_trace_path(host(rank).output, rank);
    ASSERT_TRUE(write_file(path, part + std::to_string(rank)));
    const FileDigest file = *digest_of_file(path);
    ASSERT_TRUE(desk.finished(rank, {file.bytes, file.digest}));
  }
  EXPECT_FALSE(desk.idle()) << "rank 1's is elsewhere";
  carry(desk);
  EXPECT_TRUE(desk.idle());
  EXPECT_EQ(desk.over().fetched, std::vector<int32_t>{1});
  for (const int32_t rank : {0, 1})
    EXPECT_EQ(*read_file(desk.trace_path(rank)), part + std::to_string(rank));
  EXPECT_EQ(desk.trace_path(0), rank_trace_path(host(0).output, 0)) << "seen in its own folder";
  desk.clear();
  EXPECT_TRUE(fs::is_empty(host(0).output));
}

// What survivors kept on their own hosts is newer than the checkpoint.
TEST_F(Hosts, GoOnFromWhatRanksKept) {
  const plan::Plan plan = plan_of(2);
  CheckpointCoordinator desk(plan, options(plan, false));
  ASSERT_TRUE(gather(desk, plan));
  write(desk, plan, 2);
  for (const int32_t rank : {0, 1}) {
    kernels::EmulatedKernels kernels(plan, rank, clock_);
    state::StateSnapshot kept(state::kept_folder(host(rank).output, 1), rank, 1, 5);
    ASSERT_TRUE(kept.copy(5, kernels));
    ASSERT_TRUE(kept.leave(kernels));
  }
  CheckpointCoordinator::Options more = options(plan, false);
  more.goes_on = true;
  more.epoch = 2;
  CheckpointCoordinator again(plan, more);
  const auto begin = gather(again, plan);
  ASSERT_TRUE(begin) << begin.error().text();
  EXPECT_EQ(begin->first_iteration, 6);
  EXPECT_EQ(begin->state_epoch, 1);
}

}  // namespace
}  // namespace tombolo::state
