#include "transport/tcp_state.h"

#include <linux/tcp.h>  // the C library's tcp_info ends before tcpi_bytes_acked
#include <netinet/in.h>
#include <sys/socket.h>

namespace tombolo::transport {

std::optional<TcpState> read_tcp_state(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  return TcpState{.acknowledged = info.tcpi_bytes_acked,
                  .unsent = info.tcpi_notsent_bytes,
                  .retransmitted = info.tcpi_total_retrans,
                  .round_trip = Seconds{info.tcpi_rtt * 1e-6}};
}

void set_unsent_mark(int socket, uint32_t bytes) {
  setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

// Any limit makes TCP pace itself; this one is never reached.
void spread_bursts(int socket) {
  const uint64_t bytes_per_second = uint64_t{1} << 40;
  setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes_per_second, sizeof bytes_per_second);
}

}  // namespace tombolo::transport
