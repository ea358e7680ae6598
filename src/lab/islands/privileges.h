// What islands need of a machine: root, /dev/net/tun and `ip`. Asked before anything is made.
#pragma once

#include "base/result.h"

namespace tombolo::islands {

// One message with everything that is missing.
Status check_privileges();

// Whether this kernel has `tc netem`: "yes", or why not. Tried in a namespace of its own.
// Tombolo does not use it (docs/decisions/0008-one-wan-emulator.md).
std::string netem_support();

}  // namespace tombolo::islands
