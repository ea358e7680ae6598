// Pairs of ranks that cannot reach each other in the way they were told to: what they try next (as a last resort a
// splice through the launcher's host), and their deadline to link. The launcher's side of join/dialling.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "perform/join/control_message.h"
#include "perform/join/dialling.h"
#include "spec/plan/plan.h"

namespace tombolo::run {

class UnreachedPairs {
 public:
  struct Options {
    SimDuration patience;  // from a pair's first failure on
    std::function<Result<uint16_t>()> open_splice;
    std::function<void(const std::string&)> note;
  };
  // Addresses and reach by rank, as the start message says them. The Plan outlives it.
  UnreachedPairs(const plan::Plan& plan, std::vector<std::string> addresses,
                 std::vector<int32_t> reach, Options options);

  // The port of the splice where some links need one from the beginning; 0: none does.
  Result<int32_t> first_splice();
  // A rank reports that it cannot reach a neighbour. Returns what to send to which rank; empty if it was already
  // reported, or if no other method is left. Fails if the peer is no neighbour.
  using Told = std::vector<std::pair<int32_t, join::Meet>>;
  Result<Told> unreached(int32_t rank, const join::Unreached& message, SimTime now);
  // Fails if a pair has no method left and its deadline has passed.
  Status check(SimTime now) const;

 private:
  void note(const std::string& line) const {
    if (options_.note) options_.note(line);
  }

  const plan::Plan& plan_;
  const std::vector<std::string> addresses_;
  const std::vector<int32_t> reach_;
  const Options options_;
  join::DialAttempts dialling_;
  struct Apart {
    int32_t rank = 0, peer = 0;
    SimTime until;
  };
  std::vector<Apart> apart_;
  int32_t splice_port_ = 0;  // 0: it is not open
};

}  // namespace tombolo::run
