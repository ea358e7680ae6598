// Real processes: launch() with the tombolo-worker that was built next to this test program.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/file.h"
#include "base/random.h"
#include "base/stop_signals.h"
#include "perform/join/control_message.h"
#include "perform/profile/profile.h"
#include "perform/run/launcher.h"
#include "perform/run/workers.h"
#include "perform/state/checkpoint.h"
#include "perform/state/state_reader.h"
#include "spec/trace/trace_file.h"
#include "support/test_plan.h"

namespace tombolo::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Launching : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "launch.XXXXXX").string();
    folder_ = mkdtemp(name.data());
    options_.output = folder_ + "/out";
    options_.on_start = [this](int32_t rank, int64_t pid) {
      pids_[rank] = static_cast<pid_t>(pid);
    };
    options_.log = [this](const std::string& line) {
      std::lock_guard lock(mutex_);
      log_ += line + "\n";
    };
  }
  void TearDown() override {
    for (const auto& [rank, pid] : pids_) EXPECT_NE(kill(pid, 0), 0) << "rank " << rank << " lives";
    fs::remove_all(folder_);
  }
  plan::Plan plan_with_checkpoints(int stages, int steps, int every) {
    return make_test_plan({.stages = stages,
                           .steps = steps,
                           .checkpoints = folder_ + "/checkpoints",
                           .every = every});
  }
  state::FoundCheckpoint latest() {
    const auto found = state::latest_checkpoint(folder_ + "/checkpoints");
    CHECK(found && *found, "no checkpoint");
    return **found;
  }

  SystemClock clock_;
  run::LaunchOptions options_;
  std::string folder_;
  std::map<int32_t, pid_t> pids_;
  std::mutex mutex_;
  std::string log_;
};

// A port that is free now; it is not reserved.
uint16_t free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  CHECK(bind(probe, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
            getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size) == 0,
        "no port is free");
  close(probe);
  return ntohs(address.sin_port);
}

// When an iteration would end if every computation and transfer took exactly what the Plan says:
// each rank's actions in order, each message 2 ms after its predecessor on the link or its send.
double predicted_seconds(const plan::Plan& plan, const schedule::Schedule& schedule) {
  std::vector<double> time(plan.ranks.size(), 0);
  std::vector<size_t> next(plan.ranks.size(), 0);
  std::map<std::pair<int32_t, int32_t>, double> link_free;
  std::map<action::Action, double> arrived;  // by the receiving action
  bool moved = true;
  while (moved) {
    moved = false;
    for (int32_t r = 0; r < static_cast<int32_t>(plan.ranks.size()); ++r) {
      for (; next[r] < schedule.ranks[r].size(); ++next[r], moved = true) {
        const action::Action& action = schedule.ranks[r][next[r]];
        const plan::StageCost& cost = plan.stages[r].cost;
        if (action::is_send(action.kind)) {
          const bool forward = action.kind == action::ActionKind::kSendActivation;
          const int32_t peer = r + (forward ? 1 : -1);
          double& free = link_free[{r, peer}];
          free = std::max(free, time[r]) + plan.wan_transfer->value;
          arrived[{forward ? action::ActionKind::kReceiveActivation
                           : action::ActionKind::kReceiveGradient,
                   peer, action.microbatch}] = free;
        } else if (action::is_receive(action.kind)) {
          const auto message = arrived.find(action);
          if (message == arrived.end()) break;
          time[r] = std::max(time[r], message->second);
        } else if (action.kind == action::ActionKind::kForward) {
          time[r] += cost.forward.value;
        } else if (action.kind == action::ActionKind::kBackward) {
          time[r] += cost.backward.value;
        }
      }
    }
  }
  return *std::max_element(time.begin(), time.end());
}

// What happened counts, not when: the clock decides nothing here.
TEST_F(Launching, FourEmulatedRanksPerformThePlan) {
  const plan::Plan plan = make_test_plan({.stages = 4,
                                          .microbatches = 8,
                                          .steps = 6,
                                          .forward = "4 ms",
                                          .backward = "8 ms",
                                          .transfer = "2 ms"});
  int64_t last_step = 0;
  options_.on_progress = [&](const observe::Progress& progress) { last_step = progress.step; };
  const auto summary = run::launch(plan, options_, clock_);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->steps, 6);
  EXPECT_EQ(last_step, 6);
  EXPECT_FALSE(summary->final_loss) << "nothing is computed";
  EXPECT_EQ(summary->trace.header.provenance, trace::Provenance::kEmulated);

  const auto file = trace::read_trace(summary->trace_path);
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_EQ(*file, summary->trace);
  // Per iteration: 4 stages x 8 microbatches x (F, B), 4 updates, 3 boundaries x 8 x 2 messages.
  EXPECT_EQ(file->intervals.size(), 6u * (4 * 8 * 2 + 4 + 3 * 8 * 2));
  EXPECT_EQ(trace::iteration_times(*file).size(), 6u);
  EXPECT_FALSE(fs::exists(options_.output + "/trace-rank-0.jsonl")) << "merged";

  const double predicted = predicted_seconds(plan, *schedule::build(plan));
  fmt::print("predicted {:.1f} ms, performed in {:.1f} ms: {:+.1f} %\n", predicted * 1e3,
             summary->iteration.value * 1e3, 100 * (summary->iteration.value / predicted - 1));
}

TEST_F(Launching, AKilledWorkerIsNamedAndTheCheckpointIntact) {
  const plan::Plan plan = plan_with_checkpoints(4, 1'000'000, 2);
  options_.on_progress = [&](const observe::Progress& progress) {
    if (progress.step == 5) kill(pids_.at(1), SIGKILL);
  };
  const auto summary = run::launch(plan, options_, clock_);
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().code, ErrorCode::kLostPeer);
  EXPECT_EQ(summary.error().exit_code(), 1);
  EXPECT_THAT(summary.error().text(), HasSubstr("rank 1 (paris) was lost: killed by signal 9"));
  EXPECT_THAT(summary.error().text(), HasSubstr("--resume"));
  const state::FoundCheckpoint found = latest();
  EXPECT_GE(found.manifest.step, 4);
  EXPECT_TRUE(state::verify_checkpoint(found));
  for (const auto& entry : fs::directory_iterator(folder_ + "/checkpoints")) {
    EXPECT_TRUE(fs::exists(entry.path() / "manifest.json")) << entry.path() << " is half-written";
  }
}

// The emulated state counts updates.
int64_t updates_in(const state::FoundCheckpoint& found) {
  const auto tensors = state::StateReader(found).read_all();
  CHECK(tensors, "{}", tensors.error().text());
  std::set<int64_t> counts;
  for (const kernels::NamedTensor& tensor : *tensors) {
    int64_t updates = 0;
    std::memcpy(&updates, tensor.bytes.data(), 8);
    counts.insert(updates);
  }
  CHECK(counts.size() == 1, "{} counts of updates", counts.size());
  return *counts.begin();
}

TEST_F(Launching, ARunThatLosesWorkersGoesOnFromItsCheckpoints) {
  const int kills = std::getenv("TOMBOLO_LONG") ? 100 : 4;
  const int steps = 10 * kills;
  const plan::Plan plan = plan_with_checkpoints(4, steps, 2);
  Random random(11);
  int killed = 0;
  options_.restarts = kills;
  options_.on_progress = [&](const observe::Progress&) {
    if (killed == kills || random.below(8) > 0) return;
    ++killed;
    kill(pids_.at(static_cast<int32_t>(random.below(4))), SIGKILL);
  };
  std::string notes;
  options_.on_note = [&](const std::string& note) { notes += note + "\n"; };
  const auto summary = run::launch(plan, options_, clock_);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->steps, steps);
  EXPECT_GE(summary->restarts, 1);
  EXPECT_LE(summary->restarts, killed);  // one that is killed when its work is done is not missed
  EXPECT_THAT(notes,
              HasSubstr("was lost: killed by signal 9 (Killed); starting again after step "));
  EXPECT_EQ(latest().manifest.step, steps);
  EXPECT_EQ(updates_in(latest()), steps) << "an update was lost or made twice";
  EXPECT_EQ(trace::iteration_times(summary->trace).back().iteration, steps);
}

// Every stage has two replicas, so what one of them held the other one keeps: nothing is taken from
// a checkpoint, as there is none before the end, and at most one iteration is done again.
TEST_F(Launching, WhereEveryStageHasAReplicaALostWorkerCostsOneIteration) {
  const int kills = std::getenv("TOMBOLO_LONG") ? 100 : 3;
  const int steps = 10 * kills;
  const plan::Plan plan = make_test_plan({.stages = 2,
                                          .replicas = 2,
                                          .steps = steps,
                                          .checkpoints = folder_ + "/checkpoints",
                                          .every = 1'000'000});
  Random random(5);
  int killed = 0, heard = 0;
  int64_t last = 0, at_kill = 0;
  SimTime when;
  SimDuration longest;
  options_.restarts = 3;
  options_.on_progress = [&](const observe::Progress& progress) {
    if (progress.step <= last) {
      EXPECT_GE(progress.step, at_kill) << "more than one iteration was done again";
    }
    last = progress.step;
    if (when.ns > 0) longest = std::max(longest, clock_.now() - std::exchange(when, {}));
    // One at a time: reports of many steps at once would kill both replicas of a stage.
    if (killed == kills || killed > heard || random.below(4) > 0) return;
    ++killed;
    at_kill = progress.step;
    when = clock_.now();
    kill(pids_.at(static_cast<int32_t>(random.below(4))), SIGKILL);
  };
  std::string notes;
  options_.on_note = [&](const std::string& note) {
    notes += note + "\n";
    heard += note.find("killed by signal 9") != std::string::npos;
  };
  const auto summary = run::launch(plan, options_, clock_);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_GE(summary->restarts, 1);
  EXPECT_THAT(notes, HasSubstr("killed by signal 9 (Killed); starting again after step "));
  EXPECT_EQ(updates_in(latest()), steps) << "an update was lost or made twice";
  EXPECT_FALSE(fs::exists(options_.output + "/kept"));
  fmt::print("{} kills, {} restarts; from a kill to the next iteration's end at most {}\n", killed,
             summary->restarts, brief(seconds(longest)));
}

// A process that is stopped keeps its connections; its lease ends.
TEST_F(Launching, ASilentWorkerIsLostWhenItsLeaseIsOver) {
  // Enough steps that the last ones are not done yet when this process is told of the fifth.
  const plan::Plan plan = plan_with_checkpoints(2, 100, 10);
  options_.restarts = 1;
  options_.terms = *run::lease_terms(Seconds{3}, Seconds{15});
  pid_t stopped = 0;
  options_.on_progress = [&](const observe::Progress& progress) {
    if (progress.step != 5 || stopped != 0) return;
    stopped = pids_.at(1);
    kill(stopped, SIGSTOP);
  };
  std::string notes;
  options_.on_note = [&](const std::string& note) { notes += note + "\n"; };
  const auto summary = run::launch(plan, options_, clock_);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->restarts, 1);
  EXPECT_THAT(notes, HasSubstr("rank 1 (paris) was lost: it was silent, and its lease is over"));
  EXPECT_NE(kill(stopped, 0), 0) << "it is still there";
  EXPECT_EQ(updates_in(latest()), 100);
}

// As a path is that was cut for five seconds: with the lease that an ordinary WAN needs, that costs
// five seconds.
TEST_F(Launching, AShortSilenceCostsNoEpoch) {
  options_.restarts = 3;
  std::thread wakes;
  options_.on_progress = [&](const observe::Progress& progress) {
    if (progress.step != 2 || wakes.joinable()) return;
    kill(pids_.at(1), SIGSTOP);
    wakes = std::thread([pid = pids_.at(1)] {
      std::this_thread::sleep_for(std::chrono::seconds(5));
      kill(pid, SIGCONT);
    });
  };
  const auto summary = run::launch(plan_with_checkpoints(2, 10, 100), options_, clock_);
  if (wakes.joinable()) wakes.join();
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->restarts, 0);
}

// Its state is left while it still computes, and no process waits for the kernel.
TEST_F(Launching, ASurvivorInALongKernelKeepsItsState) {
  const plan::Plan plan =
      make_test_plan({.stages = 1, .microbatches = 1, .replicas = 2, .steps = 2, .forward = "6 s"});
  options_.restarts = 3;
  bool killed = false;
  options_.on_progress = [&](const observe::Progress& progress) {
    if (progress.step == 1 && !std::exchange(killed, true)) kill(pids_.at(1), SIGKILL);
  };
  std::string notes;
  options_.on_note = [&](const std::string& note) { notes += note + "\n"; };
  const auto summary = run::launch(plan, options_, clock_);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->restarts, 1);
  EXPECT_THAT(notes, HasSubstr("killed by signal 9 (Killed); starting again after step 1"));
}

// Rank 1 is left over from an earlier epoch: it has the token, which is the same for all epochs if
// a person chose it, and the rank. Rank 0 finds out when they link.
TEST_F(Launching, RanksOfAnotherEpochAreRefused) {
  const link::Token token = *link::Token::parse("00112233445566778899aabbccddeeff");
  options_.rendezvous = run::Rendezvous{.at = {"127.0.0.1", free_port()}, .token = token};
  std::atomic<uint64_t> epoch = 0;
  std::thread zombie([&] {
    const SimTime deadline = clock_.now() + SimDuration{60'000'000'000};
    const link::Identity left_over{.rank = 1, .ranks = 3, .token = token};
    const auto control = transport::Endpoint::create({.identity = left_over}, clock_);
    const auto data = transport::Endpoint::create({.identity = left_over}, clock_);
    ASSERT_TRUE(control && data);
    const auto say = [&](const join::ControlMessage& message) {
      return (*control)->send(2, join::kControlTag, join::encode(message));
    };
    ASSERT_TRUE((*control)->connect(2, "127.0.0.1", options_.rendezvous->at.port, {}, deadline));
    ASSERT_TRUE(say(join::BeatReport{{.sent = clock_.now()}}));
    const auto answer = (*control)->receive(2, join::kControlTag, deadline);
    ASSERT_TRUE(answer) << answer.error().text();
    epoch = std::get<join::LeaseGrant>(*join::decode(answer->payload)).grant.epoch;
    constexpr int64_t kNobody = 0x3fffffff;
    ASSERT_TRUE(say(join::Hello{kNobody, fmt::format("127.0.0.1:{}", (*data)->port())}));
    bool over = false;
    while (!over) {
      const auto heard = (*control)->receive(2, join::kControlTag, deadline);
      if (!heard) break;
      const join::ControlMessage message = *join::decode(heard->payload);
      if (std::holds_alternative<state::Survey>(message)) {
        ASSERT_TRUE(say(state::Inventory{}));
      }
      over = std::holds_alternative<join::Stop>(message);
    }
  });
  const auto summary = run::launch(make_test_plan({.stages = 2}), options_, clock_);
  zombie.join();
  ASSERT_FALSE(summary);
  EXPECT_EQ(epoch, 1u);
  EXPECT_THAT(summary.error().text(), HasSubstr("it is in membership epoch 1, this rank in 0"));
}

// Each gives an address where no process listens; this process reaches both.
TEST_F(Launching, RanksThatCannotReachEachOtherMeetAtTheLauncher) {
  options_.advertise = "127.0.0.1:1";
  std::string notes;
  options_.on_note = [&](const std::string& note) { notes += note + "\n"; };
  const auto summary = run::launch(make_test_plan({.stages = 2, .steps = 3}), options_, clock_);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_THAT(notes, HasSubstr("rank 0 (oregon) cannot reach rank 1 (paris) at 127.0.0.1:1"));
  EXPECT_THAT(notes, HasSubstr("the other one calls now"));
  EXPECT_THAT(notes, HasSubstr("nor the other way round"));
  EXPECT_THAT(notes, HasSubstr("their link goes through this host"));
}

// Rank 1 is suspended at the last step. After its last message it renews no lease, so the deadline
// for the end finds it; before that its lease does.
TEST_F(Launching, AWorkerThatDoesNotEndIsLost) {
  options_.restarts = 5;  // on a busy machine the others may be late, too
  options_.end_max = SimDuration{4'000'000'000};
  options_.terms = *run::lease_terms(Seconds{3}, Seconds{15});
  pid_t stopped = 0;
  options_.on_progress = [&](const observe::Progress& progress) {
    if (progress.step != 4 || stopped != 0) return;
    stopped = pids_.at(1);
    kill(stopped, SIGSTOP);
  };
  std::string notes;
  options_.on_note = [&](const std::string& note) { notes += note + "\n"; };
  const auto summary = run::launch(plan_with_checkpoints(2, 4, 2), options_, clock_);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_GE(summary->restarts, 1);
  // Stopped before its last word it is missed by its lease.
  EXPECT_THAT(notes, testing::AnyOf(HasSubstr("rank 1 (paris) did not end within 4 s of the last"),
                                    HasSubstr("rank 1 (paris) was lost: it was silent")));
  EXPECT_EQ(updates_in(latest()), 4);
  EXPECT_NE(kill(stopped, 0), 0) << "it is still there";
}

// With its last shard written or not, or when all is done: whatever comes first.
TEST_F(Launching, AWorkerMayBeLostInTheLastStep) {
  options_.restarts = 1;
  bool killed = false;
  options_.on_progress = [&](const observe::Progress& progress) {
    if (progress.step == 4 && !std::exchange(killed, true)) kill(pids_.at(1), SIGKILL);
  };
  const auto summary = run::launch(plan_with_checkpoints(2, 4, 2), options_, clock_);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->steps, 4);
  EXPECT_EQ(updates_in(latest()), 4);
}

TEST_F(Launching, ARunThatLosesAWorkerAgainAndAgainGivesUp) {
  options_.restarts = 2;
  options_.on_progress = [&](const observe::Progress& progress) {
    if (progress.step == 1) kill(pids_.at(0), SIGKILL);
  };
  std::vector<std::string> notes;
  options_.on_note = [&](const std::string& note) { notes.push_back(note); };
  const auto summary = run::launch(plan_with_checkpoints(2, 1'000'000, 1000), options_, clock_);
  ASSERT_FALSE(summary);
  EXPECT_THAT(summary.error().text(), HasSubstr("rank 0 (oregon) was lost"));
  ASSERT_GE(notes.size(), 2u) << "more where ranks made another step before the signal came";
  EXPECT_THAT(notes[0], HasSubstr("starting again from the beginning"));
}

TEST_F(Launching, AResumedRunGoesOnWithTheNextStep) {
  plan::Plan plan = plan_with_checkpoints(2, 4, 4);
  ASSERT_TRUE(run::launch(plan, options_, clock_));
  plan.run.steps = 7;
  const auto again = run::launch(plan, options_, clock_);
  ASSERT_FALSE(again) << "an earlier run's checkpoints are not overwritten by mistake";
  EXPECT_THAT(again.error().text(), HasSubstr("an earlier run left a checkpoint of step 4"));

  options_.resume = true;
  const auto resumed = run::launch(plan, options_, clock_);
  ASSERT_TRUE(resumed) << resumed.error().text();
  EXPECT_EQ(resumed->steps, 7);
  const auto times = trace::iteration_times(resumed->trace);
  ASSERT_EQ(times.size(), 3u);
  EXPECT_EQ(times.front().iteration, 5);
  EXPECT_EQ(updates_in(latest()), 7) << "4 before, 3 after";
}

TEST_F(Launching, ADamagedShardIsNamed) {
  plan::Plan plan = plan_with_checkpoints(2, 2, 2);
  ASSERT_TRUE(run::launch(plan, options_, clock_));
  const std::string shard = latest().folder + "/" + latest().manifest.shards[1].file;
  std::string bytes = *read_file(shard);
  bytes.back() ^= 1;
  ASSERT_TRUE(write_file(shard, bytes));
  plan.run.steps = 4;
  options_.resume = true;
  const auto resumed = run::launch(plan, options_, clock_);
  ASSERT_FALSE(resumed);
  EXPECT_EQ(resumed.error().exit_code(), 2);
  EXPECT_THAT(resumed.error().text(), HasSubstr("rank 1 (paris): " + shard));
  EXPECT_THAT(resumed.error().text(), HasSubstr("the shard is damaged: the bytes of the tensor"));
}

TEST_F(Launching, ATakenPortIsNamed) {
  const int taken = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size), 0);
  options_.control_port = ntohs(address.sin_port);
  const auto summary = run::launch(make_test_plan({}), options_, clock_);
  close(taken);
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().exit_code(), 2);
  EXPECT_THAT(summary.error().text(), HasSubstr(fmt::format("{}", options_.control_port)));
  EXPECT_TRUE(pids_.empty());
}

TEST_F(Launching, AMissingWorkerProgramIsNamed) {
  options_.worker_program = folder_ + "/no-such-worker";
  const auto summary = run::launch(make_test_plan({}), options_, clock_);
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().exit_code(), 2);
  EXPECT_THAT(summary.error().text(), HasSubstr("/no-such-worker"));
}

TEST_F(Launching, AWorkerThatGivesUpSaysWhy) {
  options_.worker_program = "/bin/false";
  const auto summary = run::launch(make_test_plan({}), options_, clock_);
  ASSERT_FALSE(summary);
  EXPECT_THAT(summary.error().text(), HasSubstr("was lost: it exited with code 1"));
}

// A write beyond the limit fails as on a full disk; the launcher has room for its lock.
TEST_F(Launching, AFullDiskIsReportedByTheRankThatMetIt) {
  signal(SIGXFSZ, SIG_IGN);  // which workers inherit
  options_.on_start = [this](int32_t rank, int64_t pid) {
    pids_[rank] = static_cast<pid_t>(pid);
    const rlimit small{64, 64};  // bytes: no shard fits
    ASSERT_EQ(prlimit(pids_[rank], RLIMIT_FSIZE, &small, nullptr), 0);
  };
  std::string notes;
  options_.on_note = [&](const std::string& note) { notes += note + "\n"; };
  const auto summary = run::launch(plan_with_checkpoints(2, 4, 2), options_, clock_);
  EXPECT_THAT(notes, ::testing::AllOf(
                         HasSubstr("cannot write it: File too large"),
                         HasSubstr(folder_ + "/checkpoints/step-00000002"),
                         HasSubstr("training continues without the checkpoint of step 2; there is "
                                   "none to resume from yet")));
  ASSERT_FALSE(summary) << "the last one is not to be missed";
  EXPECT_EQ(summary.error().exit_code(), 2) << summary.error().text();
  EXPECT_THAT(summary.error().text(), HasSubstr("while writing the checkpoint of step 4"));
  EXPECT_FALSE(state::latest_checkpoint(folder_ + "/checkpoints")->has_value());
  EXPECT_TRUE(fs::is_empty(options_.output));
}

TEST_F(Launching, AFullDiskForTheTraceLeavesNoPart) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small{64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto summary = run::launch(make_test_plan({}), options_, clock_);
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().exit_code(), 2) << summary.error().text();
  EXPECT_THAT(summary.error().text(), HasSubstr("while writing the trace"));
  EXPECT_TRUE(fs::is_empty(options_.output));
}

TEST_F(Launching, AnInterruptedRunStopsInOrder) {
  StopSignals signals;
  options_.stop = &signals.flag();
  bool interrupted = false;
  options_.on_progress = [&](const observe::Progress&) {
    if (interrupted) return;
    // Ranks write while they train.
    const auto found = state::latest_checkpoint(folder_ + "/checkpoints");
    interrupted = found && *found;
    if (interrupted) raise(SIGINT);
  };
  const auto summary = run::launch(plan_with_checkpoints(2, 1'000'000, 2), options_, clock_);
  ASSERT_FALSE(summary);
  EXPECT_THAT(summary.error().text(), HasSubstr("interrupted after step "));
  EXPECT_THAT(summary.error().text(), HasSubstr("--resume"));
  EXPECT_TRUE(state::verify_checkpoint(latest()));
}

TEST_F(Launching, AStrangerAtTheControlPortIsRefusedAndTheRunGoesOn) {
  options_.control_port = free_port();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(options_.control_port);
  const socklen_t size = sizeof address;
  int stranger = -1;
  options_.on_progress = [&](const observe::Progress& progress) {
    if (progress.step != 1) return;
    stranger = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(connect(stranger, reinterpret_cast<sockaddr*>(&address), size), 0);
    constexpr std::string_view kGarbage = "GET / HTTP/1.1\r\n\r\n";
    ASSERT_EQ(write(stranger, kGarbage.data(), kGarbage.size()), ssize_t(kGarbage.size()));
    char byte = 0;
    while (read(stranger, &byte, 1) > 0) {  // until it is disconnected
    }
  };
  const auto summary = run::launch(make_test_plan({.steps = 5}), options_, clock_);
  if (stranger >= 0) close(stranger);
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(summary->steps, 5);
  std::lock_guard lock(mutex_);
  EXPECT_THAT(log_, HasSubstr("refused a connection"));
}

TEST_F(Launching, WhatCannotRunHereIsRefusedByName) {
  plan::Plan plan = make_test_plan({});
  for (auto& datacenter : plan.cluster.datacenters) {
    datacenter.device.kind = cluster::DeviceKind::kAccelerator;
  }
  const auto summary = run::launch(plan, options_, clock_);
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().exit_code(), 2);
  EXPECT_THAT(summary.error().text(), HasSubstr("can be predicted but not run here"));
}

TEST_F(Launching, AProfileAsksEveryStage) {
  const plan::Plan plan = make_test_plan({.stages = 2, .forward = "3 ms", .backward = "5 ms"});
  const auto hardware =
      profile::profile_hardware(plan, {.budget = 50_ms, .command = "test"}, clock_);
  ASSERT_TRUE(hardware) << hardware.error().text();
  ASSERT_EQ(hardware->stages.size(), 2u);
  for (const plan::MeasuredStage& stage : hardware->stages) {
    EXPECT_GT(stage.samples, 0);
    fmt::print("forward {} (3 ms), backward {} (5 ms)\n", brief(stage.cost.forward),
               brief(stage.cost.backward));
  }
}

}  // namespace
}  // namespace tombolo::worker
