// Establishes a rank's links to the ranks that it exchanges data with.
//
// All links are made concurrently, because the launcher may order any of them to be dialled in
// another way (join/dialling.h). A call that fails is reported, and the launcher answers with what
// to try instead. The launcher alone decides whether a peer is alive.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "perform/join/control_message.h"
#include "perform/join/dialling.h"
#include "perform/link/handshake.h"
#include "perform/transport/address.h"
#include "perform/transport/endpoint.h"
#include "spec/plan/plan.h"

namespace tombolo::run {

class NeighbourLinks {
 public:
  struct Options {
    int32_t rank = 0;
    transport::Address launcher;         // which joins two calls for a splice
    int32_t splice_port = 0;             // there
    std::vector<std::string> addresses;  // by rank
    std::vector<int32_t> reach;          // by rank; empty: every rank can be reached
    bool emulated_wan = false;           // both ends know rate and delay, and the network has them
    bool several_hosts = false;          // the network has rate and delay of its own
    std::function<Status(const join::Unreached&)> report;  // to the launcher; from any thread
  };
  // Both outlive it.
  NeighbourLinks(Options options, transport::Endpoint& endpoint, Threads& clock);

  // Returns when all are linked, or with the first error of the lowest peer: where one fails, the
  // others are not waited for. Once.
  Status link(const plan::Plan& plan, const std::set<int32_t>& peers);

  // From another thread.
  void take(const join::Meet& order);  // how the launcher wants a peer to be dialled
  void stop();  // no further way is tried; the Endpoint's abort wakes the threads that wait

 private:
  bool calls(int32_t peer, join::Dialling dialling) const {
    return dialling ==
           (options_.rank < peer ? join::Dialling::kLowerCalls : join::Dialling::kHigherCalls);
  }
  SimTime in(SimDuration span) const { return clock_.now() + span; }
  Status link_to(const plan::Plan& plan, int32_t peer);
  Status try_once(const join::Meet& how, const link::LinkShape& shape, SimTime deadline);

  const Options options_;
  transport::Endpoint& endpoint_;
  Threads& clock_;
  std::mutex mutex_;
  const std::unique_ptr<Signal> changed_ = clock_.signal();
  std::map<int32_t, join::Meet> orders_;  // by peer, the last one
  bool given_up_ = false;                 // one failed, or all shall stop
};

}  // namespace tombolo::run
