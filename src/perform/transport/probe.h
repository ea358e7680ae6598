// What a path between two hosts carries: goodput by number of connections and congestion control.
//
// Two programs: the far one serves (ProbeServer), the near one asks (probe). Both use Endpoint, so
// what is measured is what training gets. One link carries the questions, in JSON; each cell
// (connections, congestion control, direction) is measured over a fresh link of its own, which the
// near side dials. The receiver counts what its kernel got (frames and TLS records included, below
// half a percent); the sender's count is not used. Cells come in rounds, every other one backwards,
// so that a path that drifts favours none, and the median of the rounds counts.
//
// Near rank 0 asks rank 1; the link of cell i is that of rank 2 + i. A caller without the token is
// refused in the handshake (handshake.h). Bounds: kCellsMax cells of at most kCellMax seconds; the
// far side serves one client, ends with it, and queues at most kQueueMax bytes.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "perform/transport/address.h"
#include "perform/transport/endpoint.h"
#include "perform/transport/probe_message.h"

namespace tombolo::transport {

constexpr uint16_t kProbePort = 29600;

struct ProbeOptions {
  Endpoint::Options endpoint;  // identity is overwritten but for its token
  Address far;
  std::vector<uint32_t> connections = {1, 2, 4, 8, 16};
  std::vector<std::string> congestion_controls;  // as both kernels have them
  Seconds counted{2};                            // per cell, after a warm-up
  int rounds = 2;
  const std::atomic<bool>* stop = nullptr;

  Status check() const;
};

struct ProbeCell {
  uint32_t connections = 1;
  std::string congestion_control;
  // Payload, median over the rounds. To the far side and from there.
  BytesPerSecond forth, back;
  Seconds round_trip_forth, round_trip_back;  // TCP's while it was busy

  BytesPerSecond both() const { return std::min(forth, back); }
};

struct ProbeResult {
  Seconds round_trip;  // of an idle path: the shortest of some small messages
  std::vector<ProbeCell> cells;
  // The cell with the highest goodput in its slower direction; of those within 2 % of that, the one
  // with the fewest connections.
  const ProbeCell& best() const;
};

// A cell's time before it is counted: half a second, or 15 round trips.
Seconds probe_warmup(Seconds round_trip);

// Which of these congestion controls both sides have; all common ones where none is named.
// `on_cell(done, all)` is called before each cell, and after the last.
Result<ProbeResult> probe(ProbeOptions options,
                          const std::function<void(int64_t, int64_t)>& on_cell, Clock& clock);

// Serves one client until that ends; kFailed when none came before the deadline.
class ProbeServer {
 public:
  static Result<std::unique_ptr<ProbeServer>> listen(Endpoint::Options options, Clock& clock);
  uint16_t port() const { return endpoint_->port(); }
  Status serve(SimTime deadline, const std::atomic<bool>* stop);

 private:
  ProbeServer(std::unique_ptr<Endpoint> endpoint, Clock& clock)
      : endpoint_(std::move(endpoint)), clock_(clock) {}
  std::unique_ptr<Endpoint> endpoint_;
  Clock& clock_;
};

}  // namespace tombolo::transport
