// Real-time scheduling for emulated ranks, where this user may: a rank that is due runs at once, in
// front of everything ordinary on the machine.
//
// Emulated ranks sleep nearly all the time, so they disturb nobody; the kernel's own limit (95 % of
// a second, sched_rt_runtime_us) holds as well. Ranks that compute are left alone.
#pragma once

namespace tombolo::stage {

// Of SCHED_FIFO, 1 to 99. The WAN emulator's forwarder has a higher one: packets before payloads.
inline constexpr int kRealtimePriority = 20;

// All threads that this process has now, and those they start. False, and nothing changed in
// effect, where it is not allowed (CAP_SYS_NICE or RLIMIT_RTPRIO).
bool make_realtime(int priority = kRealtimePriority);

}  // namespace tombolo::stage
