#include "lab/islands/host_commands.h"

#include <gtest/gtest.h>

#include "lab/islands/emulate.h"
#include "lab/islands/room.h"

namespace tombolo::islands {
namespace {

// The command line is read before anything is brought up.
TEST(HostCommandsDeathTest, ThereIsACommandAndSomewhereToRunIt) {
  EXPECT_DEATH(static_cast<void>(Commands::start({})), "0 words for 0 hosts");
  EXPECT_DEATH(static_cast<void>(Commands::start({.command = {"true"}, .where = {}})),
               "1 words for 0 hosts");
  EXPECT_DEATH(static_cast<void>(run_program({})), "a program without a name");
  EXPECT_DEATH(become_command_on("paris-0", {}), "no command for paris-0");
  EXPECT_DEATH(static_cast<void>(run_in_room({})), "a room without members");
}

TEST(StatusDeathTest, ThereIsAHost) {
  EXPECT_DEATH(describe_islands({.file = "job.toml"}, {}, 1, ""),
               "job.toml: islands without a host");
}

}  // namespace
}  // namespace tombolo::islands
