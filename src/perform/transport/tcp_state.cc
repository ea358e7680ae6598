#include "perform/transport/tcp_state.h"

#include <linux/tcp.h>  // the C library's tcp_info ends before tcpi_bytes_acked
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/check.h"

namespace tombolo::transport {

std::optional<TcpState> read_tcp_state(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  return TcpState{
      .acknowledged = info.tcpi_bytes_acked,
      .delivered = info.tcpi_bytes_acked + uint64_t{info.tcpi_sacked} * info.tcpi_snd_mss,
      .received = info.tcpi_bytes_received,
      .unsent = info.tcpi_notsent_bytes,
      .retransmitted = info.tcpi_total_retrans,
      .round_trip = Seconds{info.tcpi_rtt * 1e-6}};
}

std::string congestion_control_of(int socket) {
  char name[16] = {};
  socklen_t size = sizeof name - 1;
  return getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0 ? name : "";
}

bool set_congestion_control(int socket, const std::string& name) {
  return setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
                    static_cast<socklen_t>(name.size())) == 0;
}

bool restart_congestion_control(int socket, const std::string& name) {
  // A name that is set already changes nothing, so BBR itself needs a detour.
  if (congestion_control_of(socket) == "bbr") set_congestion_control(socket, "reno");
  set_congestion_control(socket, "bbr");
  return set_congestion_control(socket, name);
}

std::vector<std::string> available_congestion_controls() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_available_congestion_control");
  return {std::istream_iterator<std::string>(file), std::istream_iterator<std::string>()};
}

void set_unsent_mark(int socket, uint32_t bytes) {
  CHECK(bytes > 0, "no mark for what is unsent");  // to the kernel: as it likes
  setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

void set_user_timeout(int socket, SimDuration most) {
  const auto ms = static_cast<unsigned>(std::max<int64_t>(1, most.ns / 1'000'000));
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

// Any limit makes TCP pace itself; this one is never reached.
void spread_bursts(int socket) {
  const uint64_t bytes_per_second = uint64_t{1} << 40;
  setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_second, sizeof bytes_per_second);
}

}  // namespace tombolo::transport
