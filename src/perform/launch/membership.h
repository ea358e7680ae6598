// Membership: a run's coordinator (control/coordinator.h) and its journal, between the launcher's
// thread, which hears what becomes of ranks, and the threads that answer their heartbeats.
//
// The journal lies in the output folder as long as the run goes on. One that is found there is of a
// launcher that was killed: the next one with the same Plan goes on with that run.
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

namespace tombolo::launch {

class Membership {
 public:
  // Unusable where another launcher works in this folder, or the journal is damaged.
  // `all_ended`: no process of an earlier launcher lives any more, so nobody need wait for it.
  static std::string journal_path(const std::string& output) { return output + "/journal"; }
  // `output` empty: without a journal; then nobody goes on with the run.
  static Result<std::unique_ptr<Membership>> open(const plan::Plan& plan, const std::string& output,
                                                  bool all_ended, const Clock& clock);

  // The journal's run was cut short, and this one goes on with it.
  bool goes_on() const { return goes_on_; }
  // The run's epoch now gathers. Before that, how long to wait, because members of an earlier
  // epoch may still work.
  std::optional<SimDuration> wait() const;
  uint64_t epoch() const;

  void came(int32_t rank);
  // The answer to a heartbeat; any thread.
  control::Grant beat(int32_t rank, const control::Beat& beat);
  void ended(int32_t rank, const std::string& how);
  // Time passes. Who was lost since the epoch began to gather, such as by being silent too long.
  struct Lost {
    int32_t rank = 0;
    std::string reason;  // "rank 1 (paris) was lost: ..."
  };
  std::optional<Lost> tick();
  // Everybody knows that all are here.
  bool begun() const;
  void stepped(int64_t step);
  // A person was told how it ended: nobody goes on by itself.
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
  std::optional<Lost> lost_;
  Status status_;
  bool goes_on_ = false;
};

}  // namespace tombolo::launch
