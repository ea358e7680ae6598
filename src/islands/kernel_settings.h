// Kernel settings of a host's network namespace. They belong to every figure measured there.
//
// What the kernel calls tcp_rmem bounds a receive buffer, and a buffer counts what the kernel
// allocates, not what arrived: with the emulator's frames, 204 bytes of window per 256 bytes of
// buffer. So a window of 3 MB needs tcp_rmem of 3.77 MB.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/cluster.h"

namespace tombolo::islands {

struct KernelSetting {
  std::string key;  // "net.ipv4.tcp_rmem"
  std::string value;
  std::string why;

  bool operator==(const KernelSetting&) const = default;
};

// Receive windows are `kWindowOfBuffer` of the buffer. Measured on Linux 6.18 with cubic over the
// emulator at 20, 40 and 80 ms: tcp_rmem of 4653056 bytes gave windows of 3715584, 3718912 and
// 3696000. The kernel takes the ratio from a connection's first full frames (tcp_measure_rcv_mss),
// 204/256 for the first ten segments of a bulk transfer.
inline constexpr double kWindowOfBuffer = 204.0 / 256;

// Buffers where nothing bounds the window: 128 MB fill 5 Gbps at 200 ms.
inline constexpr int64_t kLargeBuffer = 128 << 20;

// The settings of the hosts in `datacenter`. tcp_rmem is one for all connections of a host: of
// several WAN links with different windows, the largest counts; where a link states none, windows
// are large.
std::vector<KernelSetting> settings_of(const cluster::Cluster& cluster,
                                       const std::string& datacenter, double byte_scale);

// Writes them in the network namespace of the calling thread. A setting that this kernel does not
// have is left out and returned, as its key; one that it refuses is an error.
Result<std::vector<std::string>> apply(const std::vector<KernelSetting>& settings);

// In the namespace of the calling thread; empty where the kernel has no such setting.
std::string read_setting(const std::string& key);

}  // namespace tombolo::islands
