// Real-time scheduling for emulated ranks, if this user may use it: a rank that is due runs at
// once, before every ordinary process of the machine.
//
// Emulated ranks sleep nearly all the time, so they do not disturb other processes; the kernel's
// own limit (95 % of a second, sched_rt_runtime_us) holds as well. Ranks that compute do not use
// it.
#pragma once

namespace tombolo::stage {

// Of SCHED_FIFO, 1 to 99. The WAN emulator's forwarder has a higher one: packets before payloads.
inline constexpr int kRealtimePriority = 20;

// Applies to all threads that this process has now, and those they start. False, without an effect,
// if it is not allowed (CAP_SYS_NICE or RLIMIT_RTPRIO).
bool make_realtime(int priority = kRealtimePriority);

}  // namespace tombolo::stage
