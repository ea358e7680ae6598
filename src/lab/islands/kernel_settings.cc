#include "lab/islands/kernel_settings.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "lab/islands/network_namespace.h"

namespace tombolo::islands {
namespace {

std::string path_of(std::string key) {
  std::replace(key.begin(), key.end(), '.', '/');
  return "/proc/sys/" + key;
}

constexpr double kSegment = 1448;  // bytes of an IP packet of 1500 that TCP carries

// The largest window that a WAN link of this datacenter states; nothing where one states none.
std::optional<Bytes> window_of(const cluster::Cluster& cluster, const std::string& datacenter) {
  std::optional<Bytes> largest;
  for (const cluster::WanLink& link : cluster.wan) {
    if (link.between[0] != datacenter && link.between[1] != datacenter) continue;
    if (!link.tcp_window) return std::nullopt;
    largest = std::max(largest.value_or(Bytes{}), *link.tcp_window);
  }
  return largest;
}

}  // namespace

std::vector<KernelSetting> settings_of(const cluster::Cluster& cluster,
                                       const std::string& datacenter, double byte_scale) {
  CHECK(cluster.find(datacenter) && byte_scale >= 1, "{} of {} datacenters, bytes divided by {}",
        datacenter, cluster.datacenters.size(), byte_scale);
  int64_t receive = kLargeBuffer;
  int64_t frame = kLargeFrame;
  std::string why = "no WAN link bounds the window";
  if (const std::optional<Bytes> window = window_of(cluster, datacenter)) {
    const double scaled = window->value / byte_scale;
    receive = std::max<int64_t>(4096, std::llround(scaled * kBufferPerWindow));
    frame = std::clamp<int64_t>(std::llround(scaled / kSegment / kFramesPerWindow), 2, kLargeFrame);
    why = fmt::format("{} times the TCP window of {} to which the emulator bounds it",
                      kBufferPerWindow, brief(Bytes{scaled}));
  }
  const int64_t start = std::min<int64_t>(131072, receive);
  return {
      {"net.ipv4.tcp_rmem", fmt::format("4096 {} {}", start, receive), why},
      {"net.ipv4.tcp_wmem", fmt::format("4096 131072 {}", kLargeBuffer),
       "the sender's buffer bounds nothing"},
      {"net.ipv4.tcp_min_tso_segs", std::to_string(frame),
       "large frames, which the emulator moves cheaply, but small compared with a window"},
      {"net.ipv4.tcp_slow_start_after_idle", "0", "a pipeline pauses; its window need not shrink"},
      {"net.ipv4.tcp_no_metrics_save", "1", "a connection learns nothing from one before it"},
      {"net.ipv6.conf.all.disable_ipv6", "1", "the emulator carries IPv4 only"},
  };
}

Result<std::vector<std::string>> apply(const std::vector<KernelSetting>& settings) {
  std::vector<std::string> missing;
  for (const KernelSetting& setting : settings) {
    const FileDescriptor fd(open(path_of(setting.key).c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd.valid() && errno == ENOENT) {
      missing.push_back(setting.key);
    } else if (!fd.valid() || write(fd.get(), setting.value.data(), setting.value.size()) !=
                                  static_cast<ssize_t>(setting.value.size())) {
      return failed(fmt::format("{} = {}: {}", setting.key, setting.value, std::strerror(errno)));
    }
  }
  return missing;
}

std::string read_setting(const std::string& key) {
  const FileDescriptor fd(open(path_of(key).c_str(), O_RDONLY | O_CLOEXEC));
  char text[256];
  const ssize_t got = fd.valid() ? read(fd.get(), text, sizeof text) : 0;
  std::string out(text, static_cast<size_t>(std::max<ssize_t>(0, got)));
  while (!out.empty() && std::isspace(static_cast<unsigned char>(out.back()))) out.pop_back();
  return out;
}

}  // namespace tombolo::islands
