// A room for processes that leaves nothing behind: a PID and a mount namespace of its own.
//
// The kernel kills every process of a PID namespace when its first process ends, and that one is
// killed with its parent (PR_SET_PDEATHSIG). So after success, failure or kill -9 of any of them no
// process is left, and what only they held (network namespaces, devices, mounts) is gone as well.
//
//   tombolo-islands            outside: forwards signals, waits
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
  bool foreground = false;  // standard input is our terminal, and we are its foreground group
};

// Runs `inside` as the first process of a new room; its value is the exit code. SIGINT, SIGTERM,
// SIGHUP and SIGUSR1 are forwarded to it; they are blocked there, for signalfd. The calling process
// must have one thread only.
Result<int> run_in_room(const std::function<int(const Room&)>& inside);

// Covers /etc/hosts with one that knows the hosts, and /run/netns (where there is one) with their
// namespaces, so that `ping paris-0` and `ip netns exec paris-0` work. Seen in this room only.
Status name_hosts(const std::vector<cluster::Host>& hosts);

// What islands need of a machine: root, /dev/net/tun and `ip`. Checked before anything is made; one
// message lists everything that is missing.
Status check_privileges();

// Whether this kernel has `tc netem`: "yes", or why not. Tried in a namespace of its own.
// Tombolo does not use it (docs/decisions/0008-one-wan-emulator.md).
std::string netem_support();

}  // namespace tombolo::islands
