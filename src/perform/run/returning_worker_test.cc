#include "perform/run/returning_worker.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "perform/run/rank_session.h"
#include "perform/run/supervisor.h"
#include "support/folder_test.h"

namespace tombolo::run {
namespace {

// Wait statuses as the kernel makes them: the code in the second byte, a signal in the first.
TEST(ReturningWorker, ComesAgainAfterASignalOrWhenItSaysSo) {
  EXPECT_TRUE(comes_again(kComesAgain << 8));
  EXPECT_TRUE(comes_again(9)) << "killed";
  EXPECT_FALSE(comes_again(0)) << "done";
  EXPECT_FALSE(comes_again(1 << 8));
  EXPECT_FALSE(comes_again(2 << 8));
}

// A worker that says "again" three times and is done at the fourth.
using ReturningScript = FolderTest;

TEST_F(ReturningScript, IsStartedUntilItIsDone) {
  namespace fs = std::filesystem;
  const std::string script = at("worker");
  std::ofstream(script) << "#!/bin/sh\necho life >> " << folder_ << "/lives\n"
                        << "[ $(wc -l < " << folder_ << "/lives) -ge 4 ] || exit 75\n";
  fs::permissions(script, fs::perms::owner_all);
  const WorkerStart start{.program = script, .token_file = at("token")};
  auto status = run_worker(start);
  ASSERT_TRUE(status) << status.error().text();
  SystemClock clock;
  status = run_again(start, *status, system_processes(), clock);
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(*status, 0);
  EXPECT_EQ(*read_file(at("lives")), "life\nlife\nlife\nlife\n");
}

// RFC 5737: no host has 203.0.113.7, so it stands for an address that was lost. The launcher is
// reached over loopback.
TEST_F(ReturningScript, ListensWhereItsHostIsNow) {
  namespace fs = std::filesystem;
  const std::string script = at("worker");
  std::ofstream(script) << "#!/bin/sh\nwhile [ $# -gt 0 ]; do\n"
                        << "[ $1 = --listen ] && echo $2 >> " << folder_ << "/listened\n"
                        << "shift; done\n";
  fs::permissions(script, fs::perms::owner_all);
  WorkerStart start{.program = script,
                    .launcher = {"127.0.0.5", 1},
                    .placement = {.at = {.listen = "203.0.113.7"}},
                    .wanted = join::ListenAddress{},
                    .token_file = at("token")};
  SystemClock clock;
  ASSERT_TRUE(run_again(start, kComesAgain << 8, system_processes(), clock));
  EXPECT_EQ(*read_file(at("listened")), "127.0.0.1\n");
  start.wanted = join::ListenAddress{.listen = "203.0.113.7"};
  start.join_max = {};
  const auto nowhere = run_again(start, kComesAgain << 8, system_processes(), clock);
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().message, "--listen 203.0.113.7: this host has no such address");
}

// A launcher that answers for a while, and what happens at an instant; workers that are done at once.
class TakenRank : public FolderTest, public transport::Sockets, public Processes {
 public:
  Result<std::unique_ptr<transport::Endpoint>> open(transport::Endpoint::Options, Clock&) override {
    return failed("nobody calls here");
  }
  bool takes_connections(const transport::Address&, SimDuration patience) override {
    const bool answers = clock_.now() < launcher_ends_;
    if (!answers) clock_.advance(patience);
    if (clock_.now() >= then_at_ && then_) std::exchange(then_, {})();
    return answers;
  }
  Result<pid_t> spawn(const ChildOptions&) override {
    said_ += fmt::format("a worker begins at {:.0f} s; ", seconds(clock_.now() - SimTime{}).value);
    return 1;
  }
  void await_end(pid_t) override {}
  int await_exit(pid_t) override { return 0; }
  void signal(pid_t, int) override {}

 protected:
  static constexpr SimTime at_second(int64_t second) { return {second * 1'000'000'000}; }
  std::string play() {
    std::ofstream(at("journal")) << "the run goes on";
    const SpareOptions waiting{
        .start = {.program = "worker", .rank = 1, .ranks = 2, .token_file = at("token")},
        .journal = at("journal"),
        .sockets = this,
        .log = [this](const std::string& line) { said_ += line + "; "; }};
    const auto status = return_in_seat(waiting, 3, *this, clock_);
    return said_ + (status ? fmt::format("status {}", *status) : status.error().message);
  }

  ManualClock clock_;
  SimTime launcher_ends_ = kNever;
  SimTime then_at_;
  std::function<void()> then_;
  std::string said_;
};

constexpr const char* kAnother =
    "rank 1: another process is this rank; this one waits until it is lost, or the run is over; ";

TEST_F(TakenRank, IsTakenOverWhenTheRunGathersAgain) {
  then_at_ = at_second(100);
  then_ = [this] {
    std::ofstream(at("token")) << "000102030405060708090a0b0c0d0e0f";
    std::filesystem::permissions(at("token"), std::filesystem::perms::owner_read);
  };
  EXPECT_EQ(play(), std::string(kAnother) + "a worker begins at 100 s; status 0");
}

TEST_F(TakenRank, EndsWellWithTheRun) {
  launcher_ends_ = then_at_ = at_second(100);
  then_ = [this] { std::filesystem::remove(at("journal")); };
  EXPECT_EQ(play(), std::string(kAnother) +
                        "rank 1: the run is over; another process was this rank; status 0");
}

// Two minutes: a window of --join-timeout, and the leases of the launcher before.
TEST_F(TakenRank, IsNoReasonToWaitForALauncherThatIsGone) {
  launcher_ends_ = at_second(100);
  EXPECT_EQ(play(), std::string(kAnother) + "a worker begins at 220 s; status 0");
}

// Its worker waits, and says how long it did.
TEST_F(TakenRank, IsNotKnownBeforeTheLauncherAnswers) {
  launcher_ends_ = {};
  EXPECT_EQ(play(), "a worker begins at 0 s; status 0");
}

TEST(RankEnd, TellsWhoStartedItWhatToDo) {
  const Status lost = fail({ErrorCode::kLostPeer, "stopped", {}, {}});
  EXPECT_EQ((RankEnd{.status = {}, .again = true}.exit_code(true)), 0);
  EXPECT_EQ((RankEnd{.status = lost, .again = true, .began = true}.exit_code(true)), kComesAgain);
  EXPECT_EQ((RankEnd{.status = lost, .again = true}.exit_code(true)), kComesAgainFromGathering);
  EXPECT_TRUE(comes_again(kComesAgainFromGathering << 8));
  EXPECT_EQ((RankEnd{.status = lost, .displaced = true}.exit_code(true)), kDisplaced);
  EXPECT_FALSE(comes_again(kDisplaced << 8)) << "it waits for its seat";
  EXPECT_EQ((RankEnd{.status = lost, .again = true, .began = true}.exit_code(false)), 1);
}

TEST(SupervisorDeathTest, ASupervisorStartsSomebodyAgain) {
  EXPECT_DEATH(supervise(0), "a supervisor without restarts");
}

}  // namespace
}  // namespace tombolo::run
