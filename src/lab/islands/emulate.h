// The emulator from beginning to end: room, hosts, WAN, commands.
#pragma once

#include <string>

#include "base/result.h"
#include "lab/islands/arguments.h"
#include "lab/islands/scenario_file.h"

namespace tombolo::islands {

// Brings the hosts up, runs the command (or waits for SIGINT or SIGTERM where there is none), and
// leaves nothing behind. The exit code: the command's. SIGHUP reads the scenario file again,
// SIGUSR1 prints the counters to standard error.
Result<int> emulate(const Arguments& arguments, const Emulation& emulation);

// Becomes a command on another host of the islands this process runs in, as ssh would: the words
// are joined by blanks and given to a shell. Returns only if that does not succeed.
Error become_command_on(const std::string& host, const std::vector<std::string>& command);

}  // namespace tombolo::islands
