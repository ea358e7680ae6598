#include "perform/run/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

namespace tombolo::run {
namespace {

TEST(ChildProcess, ItsEndIsDescribed) {
  const auto end_of = [](const char* script) {
    const auto child = spawn({.program = "/bin/sh", .arguments = {"-c", script}});
    EXPECT_TRUE(child) << child.error().text();
    return describe_exit(await_exit(*child));
  };
  EXPECT_EQ(end_of("exit 3"), "it exited with code 3");
  EXPECT_EQ(end_of("kill -9 $$"), "killed by signal 9 (Killed)");
}

TEST(ChildProcessDeathTest, CallersKnowTheirChild) {
  EXPECT_DEATH(static_cast<void>(spawn({})), "a child without a program");
  EXPECT_DEATH(await_exit(-1), "-1 is no process");
  EXPECT_DEATH(describe_exit(SIGSTOP << 8 | 0x7f), "wait status 4991 is no end");
}

TEST(AllowManyFiles, RaisesTheSoftLimitToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  allow_many_files();
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, std::min<rlim_t>(before.rlim_max, 65'536));
  EXPECT_EQ(after.rlim_max, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace tombolo::run
