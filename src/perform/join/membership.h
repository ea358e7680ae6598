// Membership: a run's coordinator (control/coordinator.h) and its journal, between the launcher's
// thread, which hears what becomes of ranks, and the threads that answer their heartbeats.
//
// The coordinator decides, the launcher carries out: it reports what became of a rank, and asks
// halted() whether the epoch continues, and whether there is another. Only the coordinator counts
// losses. The endpoints of an epoch accept each rank once, so a rank that is lost while all gather
// halts the epoch, too.
//
// The journal lies in the output folder until the run is over. One that was not closed is of a
// launcher that was killed: the next one with the same Plan resumes that run.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "perform/control/coordinator.h"
#include "perform/control/journal.h"
#include "spec/plan/plan.h"

namespace tombolo::join {

struct MembershipOptions {
  std::string output;      // where the journal lies; empty: none, then the run cannot be resumed
  bool all_ended = false;  // no process of an earlier launcher lives: do not wait for its leases
  control::LeaseTerms terms;
  int losses_max = 0;                     // in a row, without a new step in between
  std::optional<SimDuration> gather_max;  // for all ranks to come; left out: as long as it takes
};

class Membership {
 public:
  // Unusable where another launcher works in this folder, or the journal is damaged.
  static std::string journal_path(const std::string& output) { return output + "/journal"; }
  static Result<std::unique_ptr<Membership>> open(const plan::Plan& plan,
                                                  const MembershipOptions& options,
                                                  const Clock& clock);

  // What `open` would find of this Plan's run in that folder: goes_on() and was_done(). Touches nothing there.
  struct Earlier {
    bool goes_on = false;
    bool was_done = false;
  };
  static Result<Earlier> earlier_run(const plan::Plan& plan, const std::string& output);

  // The journal's run was cut short, and this launcher resumes it.
  bool goes_on() const { return goes_on_; }
  // And all its steps were done when the launcher before was killed: ranks may have ended, and then
  // do not reconnect.
  bool was_done() const { return was_done_; }
  // nullopt: the run's epoch gathers now. Before that, how long to wait, because members of an
  // earlier epoch may still work.
  std::optional<SimDuration> wait() const;
  uint64_t epoch() const;

  // The gathering of the present epoch begins: what halted the one before is forgotten.
  void begin();
  void came(int32_t rank);
  // The answer to a heartbeat; any thread.
  control::Grant beat(int32_t rank, const control::Beat& beat);
  void ended(int32_t rank, const std::string& how);
  // The epoch cannot continue, whichever process is to blame.
  void halt(const std::string& reason);
  // Time passes, and a rank may have been silent for too long.
  void tick();
  // All ranks are to stop.
  struct Halted {
    std::string reason;           // "rank 1 (paris) was lost: ..."
    bool again = true;            // another epoch gathers; else the run is over
    std::optional<int32_t> lost;  // the rank that is to blame, if one is
  };
  std::optional<Halted> halted() const;
  // The epoch has begun: all ranks know that all are here.
  bool begun() const;
  void stepped(int64_t step);
  // To be called before any rank may end.
  void done();
  // The user was told how the run ended: no launcher resumes it automatically.
  void close(const std::string& reason);
  // The disk refused an entry.
  Status status() const;

 private:
  Membership(std::optional<control::Journal> journal, control::Coordinator coordinator,
             const Clock& clock)
      : clock_(clock), journal_(std::move(journal)), coordinator_(std::move(coordinator)) {}
  // Of this rank's process in this epoch.
  control::MemberId member(int32_t rank) const;
  std::optional<control::Grant> carry_out();

  const Clock& clock_;
  mutable std::mutex mutex_;
  std::optional<control::Journal> journal_;
  control::Coordinator coordinator_;
  std::optional<Halted> halted_;
  Status status_;
  bool goes_on_ = false;
  bool was_done_ = false;
};

}  // namespace tombolo::join
