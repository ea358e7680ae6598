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

// RFC 5737: nobody has 203.0.113.7, any more. The way to the launcher is over loopback.
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
  EXPECT_DEATH(supervise(0), "a supervisor that starts nobody again");
}

}  // namespace
}  // namespace tombolo::run
