// A rank's session alone, over the simulated network: its launcher, and the rank that it links to, are
// scripts, which say what they should not, or nothing. Its life under a launcher stands in
// worker/launch_test.cc and run_ocean_test.cc.
#include "perform/run/rank_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "perform/run/worker_placement.h"
#include "perform/state/checkpoint.h"
#include "perform/state/checkpoint_agent.h"
#include "perform/state/commit_tracker.h"
#include "perform/state/state_snapshot.h"
#include "spec/plan/plan_file.h"
#include "support/folder_test.h"
#include "support/ocean_processes.h"
#include "support/ocean_script.h"
#include "support/own_process.h"
#include "support/test_plan.h"

namespace tombolo::ocean {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr SimDuration kOneSecond{1'000'000'000};
constexpr uint16_t kLauncherPort = 29500;
const link::Token kRunToken = *link::Token::parse("000102030405060708090a0b0c0d0e0f");

// What the launcher does once the rank has called; what it noted, for the test to see.
using LauncherScript = std::function<std::string(ScriptedLauncher& launcher)>;
// What another process does at the same time; it ends with its endpoints.
using OtherProcess = std::function<void(Sea& sea, Waters& waters)>;

struct SessionCase {
  plan::Plan plan;
  int32_t rank = 0;
  bool returns = false;
  SimDuration stuck_max;
  SimDuration hangs;  // in iteration 2
  link::Token token = kRunToken;
  std::string token_file = {};
  OtherProcess other = {};
  bool has_launcher = true;
};

class ScriptedSession : public FolderTest {
 protected:
  void SetUp() override {
#ifdef TOMBOLO_NO_FORKS
    GTEST_SKIP() << "under ThreadSanitizer";
#endif
    FolderTest::SetUp();
  }

  std::string output() const { return at("out"); }
  std::string checkpoints() const { return at("checkpoints"); }
  plan::Plan one_rank(int every = 0) const {
    return make_test_plan({.stages = 1,
                           .steps = 3,
                           .checkpoints = every > 0 ? checkpoints() : "",
                           .every = every,
                           .apart = true});
  }
  state::Survey survey() const { return {.output = output(), .checkpoints = checkpoints()}; }
  join::Start start(const plan::Plan& plan) const {
    join::Start out{.plan = plan::to_value(plan), .epoch = 1, .keep = true};
    for (size_t rank = 0; rank < plan.ranks.size(); ++rank)
      out.addresses.push_back(fmt::format("127.0.0.1:{}", 40'100 + rank));
    return out;
  }

  // Up to what the rank has on its disk.
  void take_stock(ScriptedLauncher& launcher) const {
    launcher.hear_a<join::Hello>();
    launcher.say(survey());
    launcher.hear_a<state::Inventory>();
  }
  void begin(ScriptedLauncher& launcher, const join::Start& start) const {
    take_stock(launcher);
    launcher.say(start);
    launcher.hear_a<join::Ready>();
    launcher.say(join::Go{.origin_ns = launcher.waters().now().ns});
  }
  static void finish(ScriptedLauncher& launcher) {
    launcher.hear_a<state::Finished>();
    launcher.say(state::Over{});
  }
  // What the rank gives up for, once; then the launcher says that all stop.
  static std::string why(ScriptedLauncher& launcher, bool again = false) {
    const auto failure = launcher.hear_a<state::Failure>();
    if (!failure) return "silence | ";
    launcher.say(join::Stop{.reason = "rank 0 gave up", .again = again});
    launcher.hear_a<join::Hello>();  // until it has gone
    return failure->error.message + " | ";
  }

  // "NOTES done" or "NOTES how it ended; exit CODE", and what else people and other processes know.
  std::string serve(SessionCase setup, const LauncherScript& script) const {
    return in_a_process([&]() -> std::string {
      auto* ocean = new Ocean(1);  // kept: threads are parked in it
      auto* sea = new Sea(*ocean);
      std::string notes;
      std::optional<std::string> out;
      bool is_scripted = !setup.has_launcher;
      if (setup.has_launcher) {
        ocean->start(0, [&](Waters& waters) {
          notes = launch(*sea, waters, setup, script);
          is_scripted = true;
          return 0;
        });
      }
      if (setup.other) {
        ocean->start(0, [&](Waters& waters) {
          setup.other(*sea, waters);
          return 0;
        });
      }
      ocean->start(0, [&](Waters& waters) {
        // Behind the launcher, which listens by then.
        waters.sleep_until(waters.now() + SimDuration{100'000'000});
        out = work(*sea, waters, setup, out);
        return 0;
      });
      const SimTime limit = ocean->now() + kOneSecond * 1000;
      ocean->sail([&] { return (out && is_scripted) || ocean->now() > limit; });
      return notes + out.value_or("the session waits for ever");
    });
  }

 private:
  static std::string launch(Sea& sea, Waters& waters, const SessionCase& setup,
                            const LauncherScript& script) {
    OceanSockets sockets(sea, waters);
    const auto ranks = static_cast<int32_t>(setup.plan.ranks.size());
    auto endpoint =
        *sockets.open({.identity = {.rank = ranks, .ranks = ranks + 1, .token = kRunToken},
                       .port = kLauncherPort},
                      waters);
    if (!endpoint->await_peer(setup.rank, {}, waters.now() + kOneSecond * 200)) return "no call; ";
    ScriptedLauncher launcher(waters, std::move(endpoint), setup.rank);
    return script(launcher);
  }

  static std::string work(Sea& sea, Waters& waters, const SessionCase& setup,
                          std::optional<std::string>& out) {
    OceanSockets sockets(sea, waters);
    run::RankSessionOptions session{.rank = setup.rank,
                                    .ranks = static_cast<int32_t>(setup.plan.ranks.size()),
                                    .launcher = {"127.0.0.1", kLauncherPort},
                                    .token = setup.token,
                                    .token_file = setup.token_file,
                                    .returns = setup.returns,
                                    .stuck_max = setup.stuck_max,
                                    .realtime = false};
    session.security.plain_tcp = true;
    session.sockets = &sockets;
    session.end_process = [&](int code) {
      out = fmt::format("ended in the middle; exit {}", code);
      sea.ocean().end(waters.process(), code << 8, false);
    };
    sea.hangs_ = [&setup](int32_t, int64_t iteration) {
      return iteration == 2 ? setup.hangs : SimDuration{};
    };
    const run::RankEnd end = run::serve_rank(
        session,
        [&](const plan::Plan& plan, int32_t rank) -> Result<std::unique_ptr<kernels::Kernels>> {
          return std::make_unique<OceanKernels>(plan, rank, waters, sea);
        },
        waters);
    std::string said = end.status ? "done" : end.status.error().message;
    if (end.displaced) said += "; displaced";
    if (end.told) said += "; told";
    if (end.again) said += "; comes again";
    return said + fmt::format("; exit {}", end.exit_code(setup.returns));
  }
};

TEST(RankSessionDeathTest, CallersKeepTheirPromises) {
  ManualClock clock;
  EXPECT_DEATH(run::serve_rank({.rank = 1}, {}, clock), "no kernels for rank 1");
}

// --- A session from its beginning to its end ------------------------------------------------------

TEST_F(ScriptedSession, WhoIsToldAllInOrderIsDone) {
  const SessionCase setup{.plan = one_rank()};
  EXPECT_EQ(serve(setup,
                  [&](ScriptedLauncher& launcher) {
                    begin(launcher, start(setup.plan));
                    std::string steps;
                    while (const auto done = launcher.hear_a<join::ProgressReport>()) {
                      steps += fmt::format("{} ", done->report.iteration);
                      if (done->report.iteration == 3) break;
                    }
                    finish(launcher);
                    return steps;
                  }),
            "1 2 3 done; exit 0");
}

// The launcher was killed behind the last step, before this rank heard of it.
TEST_F(ScriptedSession, ARunThatIsOverAlreadyIsDone) {
  EXPECT_EQ(serve({.plan = one_rank()},
                  [&](ScriptedLauncher& launcher) {
                    take_stock(launcher);
                    launcher.say(state::Over{});
                    return "";
                  }),
            "done; exit 0");
}

TEST_F(ScriptedSession, AStopInsteadOfAPlan) {
  const auto stopped = [&](bool again, bool returns) {
    return serve({.plan = one_rank(), .returns = returns}, [&](ScriptedLauncher& launcher) {
      take_stock(launcher);
      launcher.say(join::Stop{.reason = "the job is withdrawn", .again = again});
      return "";
    });
  };
  EXPECT_EQ(stopped(false, true), "stopped: the job is withdrawn; told; exit 1");
  EXPECT_EQ(stopped(true, true), fmt::format("stopped: the job is withdrawn; told; comes again; "
                                             "exit {}",
                                             run::kComesAgainFromGathering));
  EXPECT_EQ(stopped(true, false), "stopped: the job is withdrawn; told; comes again; exit 1");
}

// The state of its last step stays on the disk, for those that begin again.
TEST_F(ScriptedSession, AStopWhileItPerforms) {
  for (const bool again : {true, false}) {
    std::filesystem::remove_all(output());
    const SessionCase setup{.plan = one_rank(), .returns = true, .hangs = kOneSecond * 5};
    EXPECT_EQ(serve(setup,
                    [&](ScriptedLauncher& launcher) {
                      begin(launcher, start(setup.plan));
                      launcher.hear_a<join::ProgressReport>();
                      launcher.say(join::Stop{.reason = "rank 7 was lost", .again = again});
                      launcher.hear_a<join::Hello>();
                      return "";
                    }),
              again ? fmt::format("stopped: rank 7 was lost; told; comes again; exit {}",
                                  run::kComesAgain)
                    : "stopped: rank 7 was lost; told; exit 1");
    const auto kept = state::list_kept(output());
    ASSERT_EQ(kept.size(), again ? 1u : 0u);
    for (const state::KeptShard& each : kept) EXPECT_EQ(each.step, 1);
  }
}

// A computation may hang, or last; then it is waited for no longer than this.
TEST_F(ScriptedSession, AStopInTheMiddleOfALongComputation) {
  const auto stopped = [&](bool again) {
    const SessionCase setup{.plan = one_rank(),
                            .returns = true,
                            .stuck_max = kOneSecond * 3,
                            .hangs = kOneSecond * 500};
    return serve(setup, [&](ScriptedLauncher& launcher) {
      begin(launcher, start(setup.plan));
      launcher.hear_a<join::ProgressReport>();
      launcher.say(join::Stop{.reason = "rank 7 was lost", .again = again});
      launcher.hear_a<join::Hello>();
      return "";
    });
  };
  EXPECT_EQ(stopped(true), fmt::format("ended in the middle; exit {}", run::kComesAgain));
  EXPECT_EQ(stopped(false), "ended in the middle; exit 1");
}

// --- Silence ---------------------------------------------------------------------------------------

TEST_F(ScriptedSession, NoLauncherAtAll) {
  EXPECT_EQ(serve({.plan = one_rank(), .has_launcher = false}, {}),
            "the launcher did not answer at 127.0.0.1:29500 within 60 s; exit 1");
}

TEST_F(ScriptedSession, ALauncherWhoseTokenIsYetToCome) {
  const SessionCase setup{.plan = one_rank(), .token_file = at("token")};
  EXPECT_EQ(serve(setup, [&](ScriptedLauncher&) { return ""; }),
            "no call; the launcher did not answer at 127.0.0.1:29500 within 60 s; exit 1");
}

TEST_F(ScriptedSession, AnotherTokenIsRefusedAtOnce) {
  EXPECT_THAT(
      serve({.plan = one_rank(), .token = *link::Token::parse("ff0102030405060708090a0b0c0d0e0f")},
            [&](ScriptedLauncher&) { return ""; }),
      HasSubstr("its job token differs; exit 1"));
}

// Nothing is said for a lease, at each point at which the rank waits for it.
TEST_F(ScriptedSession, SilenceIsBorneForALease) {
  const SessionCase setup{.plan = one_rank(), .returns = true};
  const auto after = [&](const std::function<void(ScriptedLauncher&)>& words) {
    return serve(setup, [&](ScriptedLauncher& launcher) {
      words(launcher);
      launcher.mute();
      const SimTime since = launcher.waters().now();
      while (launcher.hear()) {
      }
      const SimDuration passed = launcher.waters().now() - since;
      return fmt::format("{:.0f} s: ", seconds(passed).value);
    });
  };
  const std::string over = "the launcher was silent until the lease of this rank was over";
  EXPECT_EQ(after([](ScriptedLauncher&) {}),
            fmt::format("60 s: the launcher went away; comes again; exit {}",
                        run::kComesAgainFromGathering));
  EXPECT_EQ(after([](ScriptedLauncher& launcher) { launcher.hear_a<join::Hello>(); }),
            fmt::format("60 s: {}; comes again; exit {}", over, run::kComesAgainFromGathering));
  EXPECT_EQ(after([&](ScriptedLauncher& launcher) { take_stock(launcher); }),
            fmt::format("60 s: {}; comes again; exit {}", over, run::kComesAgainFromGathering));
  EXPECT_EQ(after([&](ScriptedLauncher& launcher) {
              take_stock(launcher);
              launcher.say(start(setup.plan));
              launcher.hear_a<join::Ready>();
            }),
            fmt::format("60 s: stopped: {}; comes again; exit {}", over, run::kComesAgain));
  EXPECT_EQ(after([&](ScriptedLauncher& launcher) {
              begin(launcher, start(setup.plan));
              launcher.hear_a<state::Finished>();
            }),
            fmt::format("60 s: stopped: {}; comes again; exit {}", over, run::kComesAgain));
}

// A grant says how long it holds, and one of no length that it holds no longer.
TEST_F(ScriptedSession, ALeaseThatIsTakenBack) {
  const SessionCase setup{.plan = one_rank(), .hangs = kOneSecond * 300};
  EXPECT_THAT(serve(setup,
                    [&](ScriptedLauncher& launcher) {
                      begin(launcher, start(setup.plan));
                      launcher.hear_a<join::ProgressReport>();
                      launcher.set_lease({});
                      const SimTime since = launcher.waters().now();
                      launcher.hear_a<state::Finished>();
                      return launcher.waters().now() - since < kOneSecond * 5 ? "at once: "
                                                                              : "late: ";
                    }),
              HasSubstr("the launcher was silent until the lease of this rank was over"));
}

// --- A launcher that hangs up ----------------------------------------------------------------------

TEST_F(ScriptedSession, TheLauncherGoesAtAnyPoint) {
  const SessionCase setup{.plan = one_rank(), .returns = true, .hangs = kOneSecond * 100};
  const auto after = [&](const std::function<void(ScriptedLauncher&)>& words) {
    return serve(setup, [&](ScriptedLauncher& launcher) {
      words(launcher);
      return "";
    });
  };
  const std::string gathering =
      fmt::format("the launcher went away; comes again; exit {}", run::kComesAgainFromGathering);
  const std::string performing =
      fmt::format("stopped: the launcher went away; comes again; exit {}", run::kComesAgain);
  EXPECT_EQ(after([](ScriptedLauncher&) {}), gathering);
  EXPECT_EQ(after([](ScriptedLauncher& launcher) { launcher.hear_a<join::Hello>(); }), gathering);
  EXPECT_EQ(after([&](ScriptedLauncher& launcher) { take_stock(launcher); }), gathering);
  EXPECT_EQ(after([&](ScriptedLauncher& launcher) {
              take_stock(launcher);
              launcher.say(start(setup.plan));
              launcher.hear_a<join::Ready>();
            }),
            performing);
  EXPECT_EQ(after([&](ScriptedLauncher& launcher) {
              begin(launcher, start(setup.plan));
              launcher.hear_a<join::ProgressReport>();
            }),
            performing);
  const auto kept = state::list_kept(output());
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].step, 1);
}

// --- Out of order, twice, malformed ----------------------------------------------------------------

TEST_F(ScriptedSession, SomethingElseThanALeaseComesFirst) {
  EXPECT_EQ(serve({.plan = one_rank()},
                  [&](ScriptedLauncher& launcher) {
                    launcher.mute();
                    launcher.say(survey());
                    launcher.hear_a<join::Hello>();
                    return "";
                  }),
            "the launcher did not say which epoch this is; exit 1");
}

TEST_F(ScriptedSession, SomethingElseThanAStart) {
  const std::string refused =
      "the launcher did not begin with a start message for all ranks; exit 1";
  const SessionCase setup{.plan = one_rank()};
  const auto told = [&](const join::ControlMessage& message, bool is_surveyed) {
    return serve(setup, [&](ScriptedLauncher& launcher) {
      if (is_surveyed) take_stock(launcher);
      if (!is_surveyed) launcher.hear_a<join::Hello>();
      launcher.say(message);
      while (launcher.hear()) {
      }
      return "";
    });
  };
  EXPECT_EQ(told(start(setup.plan), false), refused) << "a start before it said what it has";
  EXPECT_EQ(told(join::Go{}, true), refused);
  EXPECT_EQ(told(survey(), true), refused) << "a second survey";
  EXPECT_EQ(told(join::Hello{}, true), refused);
  EXPECT_EQ(told(join::VacantRank{}, true), refused);
  join::Start none = start(setup.plan), more = none, reach = none;
  none.addresses.clear();
  more.addresses.push_back("127.0.0.1:1");
  reach.reach = {0, 0};
  EXPECT_EQ(told(none, true), refused);
  EXPECT_EQ(told(more, true), refused);
  EXPECT_EQ(told(reach, true), refused);
}

// Frames of its links carry the epoch of its lease; kept states and shards that of the start.
TEST_F(ScriptedSession, AStartOfAnotherEpochThanItsLease) {
  const SessionCase setup{.plan = one_rank()};
  EXPECT_EQ(serve(setup,
                  [&](ScriptedLauncher& launcher) {
                    take_stock(launcher);
                    join::Start other = start(setup.plan);
                    other.epoch = 2;
                    launcher.say(other);
                    while (launcher.hear()) {
                    }
                    return "";
                  }),
            "the launcher began epoch 2 with a rank of epoch 1; exit 1");
}

TEST_F(ScriptedSession, AnIterationThatIsNone) {
  const SessionCase setup{.plan = one_rank()};
  for (const int64_t first : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    EXPECT_EQ(serve(setup,
                    [&](ScriptedLauncher& launcher) {
                      take_stock(launcher);
                      join::Start other = start(setup.plan);
                      other.first_iteration = first;
                      launcher.say(other);
                      while (launcher.hear()) {
                      }
                      return "";
                    }),
              "the launcher began with iteration " + fmt::format("{}; exit 1", first));
  }
}

TEST_F(ScriptedSession, BytesThatAreNoMessage) {
  const SessionCase setup{.plan = one_rank(), .returns = true, .hangs = kOneSecond * 100};
  const auto noise = [](ScriptedLauncher& launcher) {
    launcher.say_bytes(link::Payload(9, std::byte{'{'}));
    while (launcher.hear()) {
    }
    return "";
  };
  EXPECT_THAT(serve(setup,
                    [&](ScriptedLauncher& launcher) {
                      launcher.hear_a<join::Hello>();
                      return noise(launcher);
                    }),
              StartsWith("control message:"));
  EXPECT_THAT(serve(setup,
                    [&](ScriptedLauncher& launcher) {
                      begin(launcher, start(setup.plan));
                      launcher.hear_a<join::ProgressReport>();
                      return noise(launcher);
                    }),
              StartsWith("stopped: control message:"));
}

// The launcher's own word comes instead of the rank's, where it has one. What it has not heard the rank
// tells the next one.
TEST_F(ScriptedSession, APlanThatItCannotPerform) {
  SessionCase setup{.plan = one_rank()};
  const auto told = [&](const join::Start& start, bool is_answered) {
    return serve(setup, [&, is_answered](ScriptedLauncher& launcher) -> std::string {
      take_stock(launcher);
      launcher.say(start);
      if (is_answered) return why(launcher);
      const auto failure = launcher.hear_a<state::Failure>();
      while (launcher.hear()) {
      }
      return failure ? "" : "silence | ";
    });
  };
  join::Start none = start(setup.plan);
  none.plan = Value(int64_t{7});
  EXPECT_THAT(told(none, true), HasSubstr(" | gave up; the launcher says why; told; exit 2"));
  EXPECT_THAT(told(none, false), HasSubstr("the launcher's Plan"));
  join::Start of_two = start(setup.plan);
  of_two.plan = plan::to_value(make_test_plan({.stages = 2}));
  EXPECT_EQ(told(of_two, true),
            "a Plan of 2 ranks for 1 | gave up; the launcher says why; told; exit 1");
  EXPECT_EQ(told(of_two, false), "a Plan of 2 ranks for 1; comes again; exit 1");
}

TEST_F(ScriptedSession, WhatComesTwiceOrIsForOthersChangesNothing) {
  const SessionCase setup{.plan = one_rank()};
  EXPECT_EQ(serve(setup,
                  [&](ScriptedLauncher& launcher) {
                    begin(launcher, start(setup.plan));
                    launcher.say(join::Go{.origin_ns = INT64_MAX});
                    launcher.say(start(setup.plan));
                    launcher.say(survey());
                    launcher.say(join::Recorded{.step = 99});
                    launcher.say(join::Recorded{.step = 1});
                    launcher.say(join::DensityOrder{.first_iteration = 1, .density = 0.5});
                    launcher.say(join::DensityOrder{.first_iteration = 99, .density = 0.1});
                    launcher.say(join::Meet{.peer = -1});
                    launcher.say(join::Meet{.peer = 7, .dialling = join::Dialling::kSpliced});
                    launcher.say(state::FilePiece{.id = 12});
                    launcher.say(join::VacantRank{.rank = 0});
                    launcher.say(join::Ready{});
                    finish(launcher);
                    return "";
                  }),
            "done; exit 0");
}

// All have finished before this rank has: it was told too early, and ends its own part first.
TEST_F(ScriptedSession, TheEndBeforeItHasFinished) {
  const SessionCase setup{.plan = one_rank()};
  EXPECT_EQ(serve(setup,
                  [&](ScriptedLauncher& launcher) {
                    begin(launcher, start(setup.plan));
                    launcher.say(state::Over{});
                    const auto finished = launcher.hear_a<state::Finished>();
                    return finished && finished->trace_bytes > 0 ? "finished, " : "not finished, ";
                  }),
            "finished, done; exit 0");
}

// The end was told before the beginning, and then nothing more: a rank that waits for a word does not wait for ever.
TEST_F(ScriptedSession, TheEndBeforeItHasBegunAndThenNothing) {
  const SessionCase setup{.plan = one_rank()};
  EXPECT_THAT(serve(setup,
                    [&](ScriptedLauncher& launcher) {
                      take_stock(launcher);
                      launcher.say(start(setup.plan));
                      launcher.hear_a<join::Ready>();
                      launcher.say(state::Over{});
                      launcher.hang_up();
                      return "";
                    }),
              ::testing::HasSubstr("exit 1"));
}

// The launcher is killed as soon as it has said so. All ranks have finished, and nothing is left to do.
TEST_F(ScriptedSession, ALauncherThatGoesAfterTheEnd) {
  const SessionCase setup{.plan = one_rank(), .returns = true};
  EXPECT_EQ(serve(setup,
                  [&](ScriptedLauncher& launcher) {
                    begin(launcher, start(setup.plan));
                    finish(launcher);
                    launcher.hang_up();
                    return "";
                  }),
            "done; exit 0");
}

// --- Another process has its rank ------------------------------------------------------------------

// The process before still has the link; it may be dead, and then its lease runs out.
TEST_F(ScriptedSession, APlaceThatIsTakenIsAskedForUntilALeaseIsOver) {
  const auto second = [&](bool returns) {
    const SessionCase setup{
        .plan = one_rank(), .returns = returns, .other = [](Sea& sea, Waters& waters) {
          OceanSockets sockets(sea, waters);
          waters.sleep_until(waters.now() + SimDuration{50'000'000});
          auto endpoint =
              *sockets.open({.identity = {.rank = 0, .ranks = 2, .token = kRunToken}}, waters);
          CHECK(
              endpoint->connect(1, "127.0.0.1", kLauncherPort, {}, waters.now() + kOneSecond * 60),
              "no launcher");
          waters.sleep_until(waters.now() + kOneSecond * 300);
        }};
    return serve(setup, [&](ScriptedLauncher& launcher) {
      launcher.waters().sleep_until(launcher.waters().now() + kOneSecond * 200);
      return "";
    });
  };
  EXPECT_THAT(second(false), HasSubstr("duplicate rank 0: there is one already; told; exit 1"));
  EXPECT_THAT(second(true), HasSubstr(fmt::format(
                                "duplicate rank 0: there is one already; displaced; told; exit {}",
                                run::kDisplaced)));
}

// --- Its neighbour ---------------------------------------------------------------------------------

// Rank 1 of 2 waits for the call of rank 0. A call of another epoch is refused, even from rank 0.
TEST_F(ScriptedSession, ACallFromAnotherEpochIsNoNeighbour) {
  const auto called_in = [&](uint32_t epoch) {
    std::string refused = "welcome: ";
    SessionCase setup{.plan = make_test_plan({.stages = 2}), .rank = 1};
    std::optional<int32_t> port;
    setup.other = [&](Sea& sea, Waters& waters) {
      OceanSockets sockets(sea, waters);
      while (!port) waters.sleep_until(waters.now() + SimDuration{10'000'000});
      auto endpoint = *sockets.open(
          {.identity = {.rank = 0, .ranks = 3, .epoch = epoch, .token = kRunToken}}, waters);
      const Status called = endpoint->connect(1, "127.0.0.1", static_cast<uint16_t>(*port), {},
                                              waters.now() + kOneSecond * 20);
      if (!called) refused = called.error().message + ": ";
      waters.sleep_until(waters.now() + kOneSecond * 20);
    };
    return serve(setup, [&](ScriptedLauncher& launcher) {
      const auto hello = launcher.hear_a<join::Hello>();
      port = transport::parse_address(hello->address)->port;
      launcher.say(survey());
      launcher.hear_a<state::Inventory>();
      launcher.say(start(setup.plan));
      const auto ready = launcher.hear_a<join::Ready>(kOneSecond * 10);
      launcher.say(join::Stop{.reason = "enough"});
      launcher.hear_a<join::Hello>();
      return refused + (ready ? "ready, " : "not ready, ");
    });
  };
  EXPECT_EQ(called_in(1), "welcome: ready, stopped: enough; told; exit 1");
  EXPECT_THAT(called_in(2),
              testing::AllOf(HasSubstr("it is in membership epoch 2, this rank in 1: not ready"),
                             HasSubstr("stopped: enough; told; exit 1")));
  EXPECT_THAT(called_in(0), HasSubstr("it is in membership epoch 0, this rank in 1: not ready"));
}

// --- State: what it fetches, and what it serves ----------------------------------------------------

class ScriptedState : public ScriptedSession {
 protected:
  // A checkpoint of step 1 on another host, which the rank does not see.
  state::Manifest make_checkpoint(const plan::Plan& plan) const {
    ManualClock clock;
    kernels::EmulatedKernels kernels(plan, 0, clock);
    CHECK(kernels.update(0), "no update");
    const auto shard = state::write_shard(at("elsewhere"), 1, 0, 1, *kernels.state());
    CHECK(shard, "{}", shard.error().text());
    state::CommitTracker tracker(plan, 1);
    return **tracker.add(0, 1, *shard);
  }
  state::FilePiece piece(const state::FileRequest& asked) const {
    return state::answer({.output = output(), .checkpoints = at("elsewhere")}, 0, asked);
  }
  // The rank resumes from it, and the script answers what it asks for.
  using Answer = std::function<bool(ScriptedLauncher&, state::FilePiece)>;  // false: no more
  std::string resume(const Answer& answer) const {
    const SessionCase setup{.plan = one_rank(1), .returns = true};
    return serve(setup, [&](ScriptedLauncher& launcher) -> std::string {
      take_stock(launcher);
      join::Start start = this->start(setup.plan);
      start.first_iteration = 2;
      start.state = make_checkpoint(setup.plan);
      launcher.say(start);
      int64_t asked = 0;
      while (auto said = launcher.hear()) {
        if (const auto* request = std::get_if<state::FileRequest>(&*said)) {
          ++asked;
          if (!answer(launcher, piece(*request))) return fmt::format("{} asked, ", asked);
        } else if (const auto* failure = std::get_if<state::Failure>(&*said)) {
          launcher.say(join::Stop{.reason = "rank 0 gave up"});
          while (launcher.hear()) {
          }
          const std::string damaged =
              failure->damaged > 0 ? fmt::format(", step {} is damaged", failure->damaged) : "";
          return fmt::format("{} asked, {}{} | ", asked, failure->error.message, damaged);
        } else if (std::holds_alternative<join::Ready>(*said)) {
          launcher.say(join::Go{.origin_ns = launcher.waters().now().ns});
        } else if (std::holds_alternative<state::Finished>(*said)) {
          launcher.say(state::Over{});
          return fmt::format("{} asked, ", asked);
        }
      }
      return fmt::format("{} asked, silence, ", asked);
    });
  }
};

TEST_F(ScriptedState, FetchesWhatItsHostLacks) {
  EXPECT_EQ(resume([](ScriptedLauncher& launcher, state::FilePiece piece) {
              return launcher.say(piece);
            }),
            "2 asked, done; exit 0");
}

TEST_F(ScriptedState, BytesThatAreNotWhatWasWritten) {
  EXPECT_THAT(
      resume([](ScriptedLauncher& launcher, state::FilePiece piece) {
        piece.bytes[0] ^= std::byte{1};
        return launcher.say(piece);
      }),
      testing::AllOf(StartsWith("1 asked, "), HasSubstr("the shard is damaged: the bytes of"),
                     HasSubstr("step 1 is damaged | gave up; the launcher says why; told")));
}

TEST_F(ScriptedState, APieceThatIsNotTheOneThatIsDue) {
  const auto refused = [&](const std::function<void(state::FilePiece&)>& change) {
    return resume([&](ScriptedLauncher& launcher, state::FilePiece piece) {
      change(piece);
      return launcher.say(piece);
    });
  };
  EXPECT_THAT(refused([](state::FilePiece& piece) { piece.id += 1; }),
              HasSubstr("piece 2 of 8 bytes came, and piece 1 was due | gave up"));
  EXPECT_THAT(refused([](state::FilePiece& piece) { piece.bytes.pop_back(); }),
              HasSubstr("piece 1 of 7 bytes came, and piece 1 was due | gave up"));
  EXPECT_THAT(refused([](state::FilePiece& piece) { piece.bytes.clear(); }),
              HasSubstr("piece 1 of 0 bytes came, and piece 1 was due | gave up"));
  EXPECT_THAT(refused([](state::FilePiece& piece) { piece.error = "no host has it"; }),
              HasSubstr("no host has it | gave up"));
}

// The second copy is of a range that is done, when the next one is fetched.
TEST_F(ScriptedState, APieceThatComesTwiceCountsOnce) {
  EXPECT_EQ(resume([](ScriptedLauncher& launcher, state::FilePiece piece) {
              return launcher.say(piece) && launcher.say(piece);
            }),
            "2 asked, done; exit 0");
}

TEST_F(ScriptedState, ALauncherThatGoesInTheMiddleOfATransfer) {
  int64_t answered = 0;
  EXPECT_EQ(resume([&](ScriptedLauncher& launcher, state::FilePiece piece) {
              return ++answered == 1 && launcher.say(piece);
            }),
            fmt::format("2 asked, stopped: the launcher went away; comes again; exit {}",
                        run::kComesAgain));
}

TEST_F(ScriptedState, SilenceInTheMiddleOfATransfer) {
  EXPECT_EQ(
      resume([&](ScriptedLauncher& launcher, state::FilePiece) {
        launcher.mute();
        return true;
      }),
      fmt::format("1 asked, silence, stopped: the launcher was silent until the lease of this "
                  "rank was over; comes again; exit {}",
                  run::kComesAgain));
}

TEST_F(ScriptedState, AStateOfAnotherIteration) {
  const SessionCase setup{.plan = one_rank(1)};
  EXPECT_EQ(serve(setup,
                  [&](ScriptedLauncher& launcher) {
                    take_stock(launcher);
                    join::Start start = this->start(setup.plan);
                    start.first_iteration = 3;
                    start.state = make_checkpoint(setup.plan);
                    launcher.say(start);
                    return why(launcher);
                  }),
            "a state of step 1 for iteration 3 | gave up; the launcher says why; told; exit 1");
}

// To others it hands out what it has, by name and range, and says why where it cannot.
TEST_F(ScriptedState, ServesPiecesOfItsFilesAndNoOthers) {
  const SessionCase setup{.plan = one_rank(1), .hangs = kOneSecond * 20};
  EXPECT_EQ(serve(setup,
                  [&](ScriptedLauncher& launcher) {
                    begin(launcher, start(setup.plan));
                    const auto shard = launcher.hear_a<state::ShardReport>();
                    std::string got;
                    const auto ask = [&](state::FileRequest wanted) {
                      launcher.say(wanted);
                      const auto piece = launcher.hear_a<state::FilePiece>();
                      if (!piece) return std::string("nothing; ");
                      return fmt::format("{}: {} bytes{}; ", piece->id, piece->bytes.size(),
                                         piece->error.empty() ? "" : ", an error");
                    };
                    const state::FileRequest whole{
                        .id = 5, .step = 1, .file = shard->shard.file, .bytes = shard->shard.bytes};
                    got += ask(whole);
                    got += ask(whole);  // twice is no more than once
                    state::FileRequest other = whole;
                    other.id = 6;
                    other.offset = shard->shard.bytes - 1;  // all but one byte lie behind the end
                    got += ask(other);
                    other = whole;
                    other.id = 7;
                    other.step = 2;
                    got += ask(other);
                    other = whole;
                    other.id = 8;
                    other.file = "rank-1.safetensors";
                    got += ask(other);
                    other = whole;
                    other.id = 9;
                    other.what = state::FileKind::kKept;
                    other.epoch = 7;
                    got += ask(other);
                    launcher.say(join::Stop{.reason = "enough"});
                    launcher.hear_a<join::Hello>();
                    const std::string all = fmt::format("5: {} bytes; ", shard->shard.bytes);
                    return got == all + all +
                                       "6: 0 bytes, an error; 7: 0 bytes, an error; "
                                       "8: 0 bytes, an error; 9: 0 bytes, an error; "
                               ? std::string("as it should; ")
                               : got;
                  }),
            "as it should; stopped: enough; told; exit 1");
}

// A name with a folder, a range below 0 or of more than a piece: the message is not read at all.
TEST_F(ScriptedState, ARequestThatCannotBeMeant) {
  const SessionCase setup{.plan = one_rank(1), .hangs = kOneSecond * 20};
  const auto asked = [&](const state::FileRequest& request) {
    return serve(setup, [&](ScriptedLauncher& launcher) {
      begin(launcher, start(setup.plan));
      launcher.hear_a<join::ProgressReport>();
      launcher.say(request);
      launcher.hear_a<state::FilePiece>();
      return "";
    });
  };
  const state::FileRequest good{.id = 1, .step = 1, .file = "x", .bytes = 1};
  state::FileRequest folder = good, below = good, large = good, early = good;
  folder.file = "../secret";
  below.offset = -1;
  large.bytes = state::kPieceMax + 1;
  early.bytes = -1;
  EXPECT_THAT(asked(folder), HasSubstr("must be a file's name, without a folder"));
  EXPECT_THAT(asked(below), HasSubstr("must not be negative"));
  EXPECT_THAT(asked(large), HasSubstr("must lie between 0 and 262144"));
  EXPECT_THAT(asked(early), HasSubstr("must lie between 0 and 262144"));
}

TEST_F(ScriptedState, ACheckpointThatItDidNotWriteIsNotCommitted) {
  const SessionCase setup{.plan = one_rank(1), .hangs = kOneSecond * 20};
  EXPECT_THAT(
      serve(setup,
            [&](ScriptedLauncher& launcher) {
              begin(launcher, start(setup.plan));
              launcher.hear_a<join::ProgressReport>();
              state::Manifest manifest = make_checkpoint(setup.plan);
              manifest.step = 9;
              launcher.say(state::Commit{manifest});
              launcher.say(state::Drop{.step = 9});    // of nothing
              launcher.say(state::Retire{.step = 9});  // of nothing
              return why(launcher);
            }),
      testing::AllOf(HasSubstr("step-00000009"), HasSubstr("stopped: rank 0 gave up; told; exit")));
}

// Twice the same: it exists, and is said to.
TEST_F(ScriptedState, ACommitThatComesTwice) {
  const SessionCase setup{.plan = one_rank(2), .hangs = kOneSecond * 20};
  EXPECT_EQ(serve(setup,
                  [&](ScriptedLauncher& launcher) {
                    begin(launcher, start(setup.plan));
                    const auto shard = launcher.hear_a<state::ShardReport>();
                    state::CommitTracker tracker(setup.plan, 1);
                    const auto manifest = **tracker.add(0, shard->step, shard->shard);
                    launcher.say(state::Commit{manifest});
                    launcher.say(state::Commit{manifest});
                    std::string committed;
                    for (int i = 0; i < 2; ++i)
                      committed += fmt::format("{} ", launcher.hear_a<state::Committed>()->step);
                    launcher.say(state::Drop{.step = shard->step});  // too late: it exists
                    finish(launcher);
                    return committed;
                  }),
            "2 2 done; exit 0");
  EXPECT_TRUE(*state::latest_checkpoint(checkpoints()));
}

}  // namespace
}  // namespace tombolo::ocean
