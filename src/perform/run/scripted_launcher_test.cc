// The launcher alone, in a simulated network: its ranks are scripts, which send what no rank
// should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/file_digest.h"
#include "perform/join/rendezvous.h"
#include "perform/run/launcher.h"
#include "perform/state/checkpoint_agent.h"
#include "spec/trace/trace_file.h"
#include "support/folder_test.h"
#include "support/ocean_processes.h"
#include "support/ocean_script.h"
#include "support/own_process.h"
#include "support/test_plan.h"

namespace tombolo::ocean {
namespace {

using ::testing::HasSubstr;

constexpr SimDuration kASecond{1'000'000'000};
constexpr int32_t kRanks = 2;

// What a rank does after it has called the launcher; its exit code.
using Script = std::function<int(ScriptedPeer& launcher, int32_t rank)>;

class ScriptedProcesses : public OceanChildren {
 public:
  ScriptedProcesses(Sea& sea, Waters& waters, std::map<int32_t, Script> scripts)
      : OceanChildren(sea), waters_(waters), scripts_(std::move(scripts)) {}

  Result<pid_t> spawn(const run::ChildOptions& child) override {
    return sea_.ocean()
        .start(waters_.process().host,
               [this, child](Waters& waters) { return perform(child, waters); })
        .pid;
  }

 private:
  int perform(const run::ChildOptions& child, Waters& waters) {
    const auto word = [&](const std::string& name) {
      return *std::next(std::find(child.arguments.begin(), child.arguments.end(), name));
    };
    const int32_t rank = std::stoi(word("--rank"));
    link::Token token;
    for (const auto& [key, value] : child.environment)
      if (key == join::kTokenVariable) token = *link::Token::parse(value);
    OceanSockets sockets(sea_, waters);
    const transport::Address at = *transport::parse_address(word("--launcher"));
    auto endpoint = sockets.open(
        {.identity = {.rank = rank, .ranks = kRanks + 1, .token = token}, .plain_tcp = true},
        waters);
    if (!endpoint) return 1;
    if (!(*endpoint)->connect(kRanks, at.host, at.port, {}, waters.now() + kASecond * 60)) return 1;
    ScriptedPeer launcher(waters, std::move(*endpoint), kRanks);
    return scripts_.at(rank)(launcher, rank);
  }

  Waters& waters_;
  const std::map<int32_t, Script> scripts_;
};

stage::IterationReport report(int64_t step) {
  return {.iteration = step,
          .start = SimTime{(step - 1) * 10'000'000},
          .end = SimTime{step * 10'000'000},
          .loss = 5.0 - static_cast<double>(step)};
}

bool say_hello(ScriptedPeer& launcher, int32_t rank) {
  return launcher.say(join::Hello{.pid = 100 + rank, .address = "127.0.0.1:4000"});
}

// As a rank does it, up to the launcher's word to begin. Where its files go, or nothing.
std::optional<std::string> begin(ScriptedPeer& launcher, int32_t rank) {
  say_hello(launcher, rank);
  const auto survey = launcher.hear_a<state::Survey>();
  if (!survey) return std::nullopt;
  launcher.say(state::Inventory{});
  if (!launcher.hear_a<join::Start>()) return std::nullopt;
  launcher.say(join::Ready{});
  if (!launcher.hear_a<join::Go>()) return std::nullopt;
  return survey->output;
}

int finish(ScriptedPeer& launcher, int32_t rank, const std::string& folder) {
  const std::string path = state::rank_trace_path(folder, rank);
  CHECK(trace::write_trace(path, trace::Trace{}), "no trace");
  const FileDigest file = *digest_of_file(path);
  launcher.say(state::Finished{file.bytes, file.digest});
  return launcher.hear_a<state::Over>() ? 0 : 1;
}

int keep_to_the_rules(ScriptedPeer& launcher, int32_t rank) {
  const auto folder = begin(launcher, rank);
  if (!folder) return 1;
  for (const int64_t step : {1, 2}) launcher.say(join::ProgressReport{report(step)});
  return finish(launcher, rank, *folder);
}

class ScriptedRanks : public FolderTest {
 protected:
  void SetUp() override {
#ifdef TOMBOLO_NO_FORKS
    GTEST_SKIP() << "under ThreadSanitizer";
#endif
    FolderTest::SetUp();
  }
  // Rank 0 keeps to the rules. "done, N steps", or how the launcher words the end.
  std::string launch(Script rank_1, control::LeaseTerms terms = {}) {
    return in_a_process([&]() -> std::string {
      auto* ocean = new Ocean(1);  // kept: threads are parked in it
      auto* sea = new Sea(*ocean);
      std::optional<std::string> out;
      ocean->start(0, [&](Waters& waters) {
        OceanSockets sockets(*sea, waters);
        ScriptedProcesses processes(*sea, waters, {{0, keep_to_the_rules}, {1, rank_1}});
        run::LaunchOptions options;
        options.output = folder_ + "/out";
        options.worker_program = "/bin/true";
        options.terms = terms;
        options.sockets = &sockets;
        options.processes = &processes;
        options.security.plain_tcp = true;
        const auto summary = run::launch(make_test_plan({.steps = 2}), options, waters);
        out = summary ? fmt::format("done, {} steps", summary->steps) : summary.error().text();
        return 0;
      });
      const SimTime limit = ocean->now() + kASecond * 1000;
      ocean->sail([&] { return out.has_value() || ocean->now() > limit; });
      return out.value_or("the launcher waits for ever");
    });
  }
};

TEST_F(ScriptedRanks, WhoKeepToTheRulesAreDone) {
  EXPECT_EQ(launch(keep_to_the_rules), "done, 2 steps");
}

// Also when all have come, and the launcher is further than that.
TEST_F(ScriptedRanks, ASecondHelloEndsTheRunAndNotTheLauncher) {
  EXPECT_THAT(launch([](ScriptedPeer& launcher, int32_t rank) {
                say_hello(launcher, rank);
                launcher.hear_a<state::Survey>();
                say_hello(launcher, rank);
                launcher.hear_a<join::Stop>();
                return 1;
              }),
              HasSubstr("rank 1 (paris) said hello twice"));
}

TEST_F(ScriptedRanks, AnAnswerAboutTheBatchThatNobodyAskedFor) {
  EXPECT_THAT(launch([](ScriptedPeer& launcher, int32_t rank) {
                begin(launcher, rank);
                launcher.say(join::BatchAnswer{3, true});
                launcher.hear_a<join::Stop>();
                return 1;
              }),
              HasSubstr("order 3 of the batch was answered and not given"));
}

TEST_F(ScriptedRanks, AnInventoryThatNobodyAskedFor) {
  EXPECT_THAT(launch([](ScriptedPeer& launcher, int32_t) {
                launcher.say(state::Inventory{});
                launcher.hear();
                return 1;
              }),
              HasSubstr("rank 1 (paris) said what it has before it was asked"));
}

TEST_F(ScriptedRanks, ASecondInventory) {
  EXPECT_THAT(launch([](ScriptedPeer& launcher, int32_t rank) {
                say_hello(launcher, rank);
                launcher.hear_a<state::Survey>();
                launcher.say(state::Inventory{});
                launcher.say(state::Inventory{});
                launcher.hear_a<join::Stop>();
                return 1;
              }),
              HasSubstr("rank 1 said twice what it has"));
}

TEST_F(ScriptedRanks, FinishedBeforeItBegan) {
  EXPECT_THAT(launch([](ScriptedPeer& launcher, int32_t) {
                launcher.say(state::Finished{});
                launcher.hear();
                return 1;
              }),
              HasSubstr("rank 1 (paris) finished before it began"));
}

TEST_F(ScriptedRanks, AMessageThatOnlyALauncherSends) {
  EXPECT_THAT(launch([](ScriptedPeer& launcher, int32_t) {
                launcher.say(join::Go{});
                launcher.hear();
                return 1;
              }),
              HasSubstr("rank 1 (paris) sent a message that only a launcher sends"));
}

TEST_F(ScriptedRanks, BytesThatAreNoMessage) {
  EXPECT_THAT(launch([](ScriptedPeer& launcher, int32_t) {
                launcher.say_bytes(link::Payload(7, std::byte{'x'}));
                launcher.hear();
                return 1;
              }),
              HasSubstr("rank 1 (paris) was lost"));
}

TEST_F(ScriptedRanks, AReportOfAStepBeyondTheLast) {
  EXPECT_THAT(launch([](ScriptedPeer& launcher, int32_t rank) {
                if (!begin(launcher, rank)) return 1;
                launcher.say(join::ProgressReport{report(3)});
                launcher.hear_a<join::Stop>();
                return 1;
              }),
              HasSubstr("rank 1 reported step 3 of 2"));
}

TEST_F(ScriptedRanks, AReportThatComesTwiceCountsOnce) {
  EXPECT_EQ(launch([](ScriptedPeer& launcher, int32_t rank) {
              const auto folder = begin(launcher, rank);
              for (const int64_t step : {1, 1, 2, 2})
                launcher.say(join::ProgressReport{report(step)});
              return folder ? finish(launcher, rank, *folder) : 1;
            }),
            "done, 2 steps");
}

// It said it to a launcher before, perhaps; to this one it means nothing.
TEST_F(ScriptedRanks, AReportOfAStepBeforeTheFirstOne) {
  EXPECT_EQ(launch([](ScriptedPeer& launcher, int32_t rank) {
              const auto folder = begin(launcher, rank);
              for (const int64_t step : {0, 1, 2}) launcher.say(join::ProgressReport{report(step)});
              return folder ? finish(launcher, rank, *folder) : 1;
            }),
            "done, 2 steps");
}

TEST_F(ScriptedRanks, WhoLeavesInTheMiddleIsLost) {
  EXPECT_THAT(launch([](ScriptedPeer& launcher, int32_t rank) {
                begin(launcher, rank);
                return 0;
              }),
              HasSubstr("rank 1 (paris) was lost"));
}

TEST_F(ScriptedRanks, ANeighbourThatIsNone) {
  for (const int32_t peer : {-1, 1, 7}) {
    EXPECT_THAT(
        launch([peer](ScriptedPeer& launcher, int32_t rank) {
          say_hello(launcher, rank);
          launcher.hear_a<state::Survey>();
          launcher.say(state::Inventory{});
          launcher.hear_a<join::Start>();
          launcher.say(join::Unreached{.peer = peer});
          launcher.hear();
          return 1;
        }),
        HasSubstr(fmt::format("rank 1 (paris) cannot reach rank {}, which is no neighbour", peer)));
  }
}

TEST_F(ScriptedRanks, ItsOwnTroubleIsToldInItsWords) {
  EXPECT_THAT(launch([](ScriptedPeer& launcher, int32_t rank) {
                begin(launcher, rank);
                launcher.say(state::Failure{Error{ErrorCode::kUnusable, "no such tensor", {}, ""}});
                launcher.hear();
                return 2;
              }),
              HasSubstr("rank 1 (paris): no such tensor"));
}

// Of damage that the launcher cannot know of it believes nothing.
TEST_F(ScriptedRanks, ADamagedCheckpointThatNobodyBeganWith) {
  EXPECT_THAT(launch([](ScriptedPeer& launcher, int32_t rank) {
                begin(launcher, rank);
                launcher.say(state::Failure{Error{ErrorCode::kFailed, "damaged", {}, ""}, 9});
                launcher.hear();
                return 1;
              }),
              HasSubstr("rank 1 (paris): damaged"));
}

TEST_F(ScriptedRanks, ATraceWithAnotherDigestIsFetchedAndRefused) {
  EXPECT_THAT(launch([](ScriptedPeer& launcher, int32_t rank) {
                begin(launcher, rank);
                for (const int64_t step : {1, 2}) launcher.say(join::ProgressReport{report(step)});
                launcher.say(state::Finished{4, "0000"});
                if (const auto asked = launcher.hear_a<state::FileRequest>())
                  launcher.say(state::FilePiece{.id = asked->id, .bytes = link::Payload(4)});
                launcher.hear();
                return 0;
              }),
              HasSubstr("rank 1's part of the Trace is not what it wrote"));
}

TEST_F(ScriptedRanks, WhoLeavesInTheMiddleOfATransferIsLost) {
  EXPECT_THAT(
      launch([](ScriptedPeer& launcher, int32_t rank) {
        begin(launcher, rank);
        for (const int64_t step : {1, 2}) launcher.say(join::ProgressReport{report(step)});
        launcher.say(state::Finished{state::kPieceMax * 9, "0000"});
        if (const auto asked = launcher.hear_a<state::FileRequest>())
          launcher.say(state::FilePiece{.id = asked->id, .bytes = link::Payload(state::kPieceMax)});
        return 0;
      }),
      HasSubstr("rank 1 (paris) was lost"));
}

TEST_F(ScriptedRanks, APieceOfAnotherLength) {
  EXPECT_THAT(launch([](ScriptedPeer& launcher, int32_t rank) {
                begin(launcher, rank);
                for (const int64_t step : {1, 2}) launcher.say(join::ProgressReport{report(step)});
                launcher.say(state::Finished{4, "0000"});
                if (const auto asked = launcher.hear_a<state::FileRequest>())
                  launcher.say(state::FilePiece{.id = asked->id, .bytes = link::Payload(3)});
                launcher.hear();
                return 0;
              }),
              HasSubstr("of 3 bytes came"));
}

TEST_F(ScriptedRanks, APieceThatNobodyAskedFor) {
  EXPECT_THAT(launch([](ScriptedPeer& launcher, int32_t rank) {
                begin(launcher, rank);
                launcher.say(state::FilePiece{.id = 7, .bytes = link::Payload(4)});
                launcher.hear();
                return 1;
              }),
              HasSubstr("rank 1 sent a piece of a file that was not asked for"));
}

TEST_F(ScriptedRanks, ARequestForWhatNobodyHasIsAnswered) {
  EXPECT_EQ(launch([](ScriptedPeer& launcher, int32_t rank) {
              const auto folder = begin(launcher, rank);
              for (const int64_t id : {5, 5, 6}) {
                launcher.say(state::FileRequest{.id = id, .step = 1, .file = "x", .bytes = 1});
                const auto piece = launcher.hear_a<state::FilePiece>();
                if (!piece || piece->id != id || piece->error != "no host has it") return 1;
              }
              for (const int64_t step : {1, 2}) launcher.say(join::ProgressReport{report(step)});
              return folder ? finish(launcher, rank, *folder) : 1;
            }),
            "done, 2 steps");
}

TEST_F(ScriptedRanks, WhoSaysNothingUntilItsLeaseIsOverIsLost) {
  control::LeaseTerms terms;
  terms.floor = terms.ceiling = kASecond * 10;
  EXPECT_THAT(launch(
                  [](ScriptedPeer& launcher, int32_t rank) {
                    begin(launcher, rank);
                    launcher.mute();
                    launcher.waters().sleep_until(launcher.waters().now() + kASecond * 300);
                    return 0;
                  },
                  terms),
              HasSubstr("rank 1"));
}

}  // namespace
}  // namespace tombolo::ocean
