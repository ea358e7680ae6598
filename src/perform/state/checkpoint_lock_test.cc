#include "perform/state/checkpoint_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "support/folder_test.h"

namespace tombolo::state {
namespace {

using ::testing::HasSubstr;

class CheckpointLocks : public FolderTest {
 protected:
  Result<CheckpointLock> take(const std::string& run, SimDuration patience = {}) {
    return CheckpointLock::take(folder_, run, clock_, patience);
  }
  ManualClock clock_;
};

TEST_F(CheckpointLocks, AreSharedByOneRunAndKeepOthersOut) {
  {
    const auto launcher = take("a:/run");
    ASSERT_TRUE(launcher) << launcher.error().text();
    const auto rank = take("a:/run");
    ASSERT_TRUE(rank) << rank.error().text();
    const auto other = take("b:/run");
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().message,
              folder_ + ": another run (a:/run) writes its checkpoints here");
    EXPECT_EQ(other.error().exit_code(), 2);
    EXPECT_TRUE(take("a:/run")) << "who was refused has changed nothing";
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "the last one cleans up";
  EXPECT_TRUE(take("b:/run"));
}

// A rank may outlive its launcher: the lock is free when the last of them has gone.
TEST_F(CheckpointLocks, LastAsLongAsAnybodyOfTheRun) {
  std::optional<Result<CheckpointLock>> launcher = take("a:/run");
  std::optional<Result<CheckpointLock>> rank = take("a:/run");
  launcher.reset();
  EXPECT_FALSE(take("b:/run"));
  EXPECT_TRUE(take("a:/run")) << "the run goes on";
  rank.reset();
  EXPECT_TRUE(take("b:/run"));
}

TEST_F(CheckpointLocks, AreWaitedForAWhile) {
  const auto holder = take("a:/run");
  const SimTime before = clock_.now();
  EXPECT_FALSE(take("b:/run", SimDuration{2'000'000'000}));
  EXPECT_EQ((clock_.now() - before).ns, 2'000'000'000);
}

// Its file stays, and says nothing: the kernel's lock is gone.
TEST_F(CheckpointLocks, OfAKilledProcessAreFree) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lock = take("a:/run");
    const char answer = lock ? '1' : '0';
    if (write(ready[1], &answer, 1) == 1) pause();
    _exit(1);
  }
  char answer = '0';
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, '1');
  EXPECT_FALSE(take("b:/run"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(at("lock")));
  EXPECT_TRUE(take("b:/run"));
  close(ready[0]);
  close(ready[1]);
}

TEST_F(CheckpointLocks, OfAFolderThatIsMissingAreNone) {
  const auto lock = CheckpointLock::take(at("gone"), "a", clock_);
  ASSERT_FALSE(lock);
  EXPECT_THAT(lock.error().message, HasSubstr("gone/lock: cannot open it"));
}

TEST(RunName, IsOfAProcessWhereNobodyGoesOn) {
  EXPECT_THAT(run_name("/x/run", true), ::testing::EndsWith(":/x/run"));
  EXPECT_THAT(run_name("/x/run", false), HasSubstr(fmt::format(":/x/run, process {}", getpid())));
}

}  // namespace
}  // namespace tombolo::state
