// A spare: a standby process that takes over the rank of a process that does not return.
//
// It connects to the launcher as ranks do, under one of the numbers after the launcher's own, says
// in which datacenter it is and waits. If an external launcher started the ranks, this launcher
// cannot start a process for a rank whose host is gone: it tells a spare which rank is vacant, and
// the spare starts that rank's worker, as the lost host would have. A spare needs only the address
// of the launcher and the job's token.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "perform/run/worker_placement.h"
#include "perform/transport/endpoint.h"

namespace tombolo::run {

// How many spares can wait at a launcher at the same time; others retry.
inline constexpr int32_t kSparesMax = 16;
// How many ranks an Endpoint has if spares connect as well: the launcher comes after the last rank,
// spares after the launcher.
constexpr int32_t ranks_with_spares(int32_t ranks) { return ranks + 1 + kSparesMax; }
constexpr bool is_spare(int32_t caller, int32_t ranks) { return caller > ranks; }

struct SpareOptions {
  // As for a rank's worker; `rank` is ignored. It waits up to join_max for a launcher that it
  // cannot reach, in the beginning and later.
  WorkerStart start;
  std::string datacenter;  // whose ranks it takes; empty: any
  // The rank that this host had: preferred to others of the datacenter; without a datacenter the
  // only one it takes. -1: whichever is vacant.
  int32_t seat = -1;
  std::string network;  // of the emulated islands it is in; empty: none
  // Path of the launcher's journal, if the token file is in the same folder. The token file exists
  // only while ranks gather; the journal exists until the run ends, so it tells whether the run
  // still exists. Empty: not known here.
  std::string journal;
  std::function<bool()> asked_to_end = [] { return false; };
  transport::Sockets* sockets = &transport::system_sockets();
  std::function<void(const std::string&)> log;
};

// Returns the rank that it takes over; nullopt: the run has ended, or it was asked to end. Fails if
// there is no launcher, or one that refuses it.
Result<std::optional<int32_t>> wait_for_seat(const SpareOptions& options, Threads& threads);

}  // namespace tombolo::run
