#include "perform/launch/returning_worker.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "perform/launch/supervisor.h"

namespace tombolo::launch {
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
TEST(ReturningWorker, IsStartedUntilItIsDone) {
  namespace fs = std::filesystem;
  const std::string folder = testing::TempDir() + "/returning-worker";
  fs::create_directories(folder);
  const std::string script = folder + "/worker";
  std::ofstream(script) << "#!/bin/sh\necho life >> " << folder << "/lives\n"
                        << "[ $(wc -l < " << folder << "/lives) -ge 4 ] || exit 75\n";
  fs::permissions(script, fs::perms::owner_all);
  const WorkerStart start{.program = script, .token_file = folder + "/token"};
  auto status = run_worker(start);
  ASSERT_TRUE(status) << status.error().text();
  status = run_again(start, *status);
  ASSERT_TRUE(status) << status.error().text();
  EXPECT_EQ(*status, 0);
  EXPECT_EQ(*read_file(folder + "/lives"), "life\nlife\nlife\nlife\n");
  fs::remove_all(folder);
}

TEST(SupervisorDeathTest, ASupervisorStartsSomebodyAgain) {
  EXPECT_DEATH(supervise(0), "a supervisor that starts nobody again");
}

}  // namespace
}  // namespace tombolo::launch
