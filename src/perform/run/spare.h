// A spare: a process beside a run that goes on, which takes the seat of a rank that does not come.
//
// It calls the launcher as ranks do, under one of the numbers after the launcher's own, says in
// which datacenter it is and waits. Where somebody else started the ranks the launcher cannot start
// a process for one whose host is gone: it tells a spare which seat is free, and the spare starts
// that rank's worker, as the host that is gone would have. Nothing is shared but the address of the
// launcher and the job's token.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "perform/run/worker_placement.h"
#include "perform/transport/endpoint.h"

namespace tombolo::run {

// That wait at a launcher at once; others ask again.
inline constexpr int32_t kSparesMax = 16;
// What the ranks of an Endpoint are where spares call as well: the launcher comes after the last
// rank, spares after the launcher.
constexpr int32_t ranks_with_spares(int32_t ranks) { return ranks + 1 + kSparesMax; }
constexpr bool is_spare(int32_t caller, int32_t ranks) { return caller > ranks; }

struct SpareOptions {
  // As of a rank's worker; `rank` does not count. For so long as join_max it waits for a launcher
  // that it cannot find, in the beginning and later.
  WorkerStart start;
  std::string datacenter;  // whose ranks it takes; empty: any
  // The rank that was this host's, before others of the datacenter; without a datacenter that one
  // alone. -1: whichever is vacant.
  int32_t seat = -1;
  std::string network;  // of the emulated islands it is in; empty: none
  // Where the launcher's journal would be, if the token is found beside it, which is there only
  // while ranks gather: as long as the journal is there the run goes on. Empty: nowhere.
  std::string journal;
  std::function<bool()> asked_to_end = [] { return false; };
  transport::Sockets* sockets = &transport::system_sockets();
  std::function<void(const std::string&)> log;
};

// The rank whose seat it has; nothing: the run is over, or it was asked to end. Fails where there
// is no launcher, or one that refuses it.
Result<std::optional<int32_t>> wait_for_seat(const SpareOptions& options, Threads& threads);

}  // namespace tombolo::run
