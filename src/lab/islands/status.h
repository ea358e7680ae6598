// What people and programs are told about running islands, as text.
#pragma once

#include <string>
#include <vector>

#include "base/value.h"
#include "lab/islands/bring_up.h"
#include "lab/islands/scenario_file.h"
#include "lab/wanem/forwarder.h"

namespace tombolo::islands {

// Hosts and addresses, how to enter them, links and their conditions, kernel settings: a page.
std::string describe_islands(const Emulation& emulation, const Archipelago& archipelago,
                             pid_t pid_outside, const std::string& netem);

// A line per directed pair of hosts that carried anything, and one for the thread.
std::string describe_counters(const wanem::Forwarder& forwarder);

// The same for programs: {"links": [{"from", "to", "segments", ...}], "realtime", "cpu_s"}.
Value counters_value(const wanem::Forwarder& forwarder);

}  // namespace tombolo::islands
