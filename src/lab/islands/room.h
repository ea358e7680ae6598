// A room for processes that leaves nothing behind: a PID and a mount namespace of its own.
//
// The kernel ends every process of a PID namespace with its first one, and that one asked to be
// killed with its parent (PR_SET_PDEATHSIG). So after success, failure or kill -9 of any of them
// nobody is left, and what only they held (network namespaces, devices, mounts) goes with them.
//
//   tombolo-islands            outside: passes signals on, waits
//     the first process        holds the namespaces, runs the Forwarder, reaps orphans
//       COMMAND                in a process group of its own
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "spec/cluster/islands.h"

namespace tombolo::islands {

struct Room {
  pid_t pid_outside = 0;    // of the first process, for nsenter
  bool foreground = false;  // standard input is a terminal that listens to us
};

// Runs `inside` as the first process of a new room; its value is the exit code. SIGINT, SIGTERM,
// SIGHUP and SIGUSR1 are passed on to it, where they are blocked (signalfd). Needs one thread.
Result<int> run_in_room(const std::function<int(const Room&)>& inside);

// Covers /etc/hosts with one that knows the hosts, and /run/netns (where there is one) with their
// namespaces, so that `ping paris-0` and `ip netns exec paris-0` work. Seen in this room only.
Status name_hosts(const std::vector<cluster::Host>& hosts);

// What islands need of a machine: root, /dev/net/tun and `ip`. Asked before anything is made; one
// message has everything that is missing.
Status check_privileges();

// Whether this kernel has `tc netem`: "yes", or why not. Tried in a namespace of its own.
// Tombolo does not use it (docs/decisions/0008-one-wan-emulator.md).
std::string netem_support();

}  // namespace tombolo::islands
