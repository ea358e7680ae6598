// The emulator from beginning to end: room, hosts, WAN, commands.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/value.h"
#include "lab/islands/arguments.h"
#include "lab/islands/bring_up.h"
#include "lab/islands/scenario_file.h"
#include "lab/wanem/forwarder.h"

namespace tombolo::islands {

// Brings the hosts up, runs the command (or waits for SIGINT or SIGTERM where there is none), and
// leaves nothing behind. The exit code: the command's. SIGHUP reads the scenario file again,
// SIGUSR1 prints the counters to standard error.
Result<int> emulate(const Arguments& arguments, const Emulation& emulation);

// Becomes a command on another host of the islands this process runs in, as ssh would: the words
// are joined by blanks and given to a shell. Returns only if that does not succeed.
Error become_command_on(const std::string& host, const std::vector<std::string>& command);

// A description of running islands for people: hosts and addresses, how to enter them, links and
// their conditions, kernel settings. About a page.
std::string describe_islands(const Emulation& emulation, const Archipelago& archipelago,
                             pid_t pid_outside, const std::string& netem);

// A line per directed pair of hosts that carried anything, and one for the thread.
std::string describe_counters(const wanem::Forwarder& forwarder);

// The same for programs: {"links": [{"from", "to", "segments", ...}], "realtime", "cpu_s"}.
Value counters_value(const wanem::Forwarder& forwarder);

}  // namespace tombolo::islands
