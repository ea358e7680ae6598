// Kernel settings of a host's network namespace. They belong to every figure measured there.
//
// The TCP window that a link states is not among them: the emulator bounds it exactly
// (wanem/window_bound.h), and buffers are four times as large, so that they bound nothing.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "spec/cluster/cluster.h"

namespace tombolo::islands {

struct KernelSetting {
  std::string key;  // "net.ipv4.tcp_rmem"
  std::string value;
  std::string why;

  bool operator==(const KernelSetting&) const = default;
};

// Bytes of receive buffer per byte of window. Linux 6.18 took 1.25 to 1.82, depending on how full
// the memory of a connection's first frames was; 2 is what kernels before 6.6 assumed. Much more
// would cost precision: the field of a window counts in units that grow with the buffer.
inline constexpr int64_t kBufferPerWindow = 4;

// Buffers where nothing bounds the window: 128 MB fill 5 Gbps at 200 ms.
inline constexpr int64_t kLargeBuffer = 128 << 20;

// The least number of segments that TCP hands over at once: 40 make the emulator cheap. But a
// sender waits until it may send that many, and if the window is scaled down to about as many, it
// stands empty meanwhile: GPT-A of Atlas over 5 connections of 41 segments each took 5.2 % longer
// than predicted with 40, 2.6 % with 2. So a frame is at most 1/16 of the window, but at least the
// 2 segments of an untouched kernel.
inline constexpr int64_t kLargeFrame = 40;
inline constexpr int64_t kFramesPerWindow = 16;

// The settings of the hosts in `datacenter`. tcp_rmem is one for all connections of a host, so the
// largest window of its WAN links counts; where a link states none, buffers are large.
std::vector<KernelSetting> settings_of(const cluster::Cluster& cluster,
                                       const std::string& datacenter, double byte_scale);

// Writes them in the network namespace of the calling thread. A setting that this kernel does not
// have is left out and returned, as its key; one that it refuses is an error.
Result<std::vector<std::string>> apply(const std::vector<KernelSetting>& settings);

// In the namespace of the calling thread; empty where the kernel has no such setting.
std::string read_setting(const std::string& key);

}  // namespace tombolo::islands
