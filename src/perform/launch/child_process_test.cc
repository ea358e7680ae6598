#include "perform/launch/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

namespace tombolo::launch {
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

}  // namespace
}  // namespace tombolo::launch
