// Where the law for WAN flows (docs/laws/wan_flow.md) is too fast because both directions carry data:
// acknowledgements queue behind that data, so a round trip takes longer than 2 L. A flow whose
// windows hold little more than its path carries in 2 L is slower then.
#pragma once

#include "spec/cluster/cluster.h"

namespace tombolo::cluster {

// The windows of all connections, as a share of what the node pair and the path carry in a round
// trip; 0 where the link states no window or no latency.
double window_share(const WanLink& link);

// From 0.75 to 1.5. Emulated, Atlas' GPT-A with Varuna over 16 connections at 40 ms took 17 % longer than
// predicted with a share of 0.96, 9 % with 1.28 and 4 % with 1.44 (docs/results/emulated_islands.md).
bool has_tight_windows(const WanLink& link);

}  // namespace tombolo::cluster
