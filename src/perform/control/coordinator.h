// Coordinator: who belongs to a run, and when all may work.
//
// A run has ranks, each in a datacenter. Processes come and take one each; when all are taken, an
// epoch begins and all work. When one of them is lost, all stop, and when it is certain that none
// works any more, the next epoch gathers: survivors come back, and new processes take the ranks of
// those that do not.
//
//   fencing ──> gathering ──all ranks taken──> working ──one lost──> stopping
//   (after a      ^                                                     |
//    restart)     └────────────── none works: the next epoch ───────────┘
//
// What holds, whatever is delayed, lost, cut off, killed or restarted:
//   - Two epochs never work at once. A member works only under a lease (lease.h), and an epoch
//     gathers only once each member of the one before is known to have ended or its lease is over.
//     After a restart the coordinator knows no leases, and waits for the longest there can be.
//   - No part of a run works alone. An epoch begins only with all ranks taken, each from its own
//     datacenter, by members that hold leases and have confirmed it: that we hear a member does not
//     mean that it hears us. A datacenter that is cut off has no coordinator, and stops when its
//     leases end; or it has the coordinator, which stops its members and gathers until the others
//     are back.
//   - An epoch's number is on disk before any member receives it, and is never used twice.
//
// A state machine: events and their instants, which do not go back, go in; orders come out, to be
// carried out in their order. A Write that fails ends the run. Cost: O(ranks) per call, except for
// beats while all work.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "perform/control/journal.h"
#include "perform/control/lease.h"

namespace tombolo::control {

using MemberId = uint64_t;  // of one process, for as long as it lives; chosen by the owner

struct Seat {
  std::string name;  // for people: "rank 3 (paris)"
  std::string datacenter;
};

struct CoordinatorOptions {
  LeaseTerms terms;
  std::vector<Seat> seats;
  int losses_max = 3;  // in a row, without a step in between
  // How long an epoch may gather; left out: as long as it takes. If it takes longer before the
  // first epoch has begun, the run is over; later that counts as a loss, and the next epoch
  // gathers.
  std::optional<SimDuration> gather_max;
};

// --- What comes out -----------------------------------------------------------------------------

// On disk before the next order is carried out.
struct Write {
  Entry entry;
};
struct Answer {
  MemberId member = 0;
  Grant grant;
  std::optional<size_t> seat;  // the rank that it has
};
// All ranks are taken: all members work.
struct Begin {
  uint64_t epoch = 0;
};
// The member that had this rank is gone, and why; while an epoch gathers, the rank is vacant again.
struct Lost {
  size_t seat = 0;
  std::string reason;
};
// All members stop.
struct Halt {
  uint64_t epoch = 0;
  std::string reason;
};
// The run is over, and this is why.
struct GiveUp {
  std::string reason;
};
using Instruction = std::variant<Write, Answer, Begin, Lost, Halt, GiveUp>;

// --- The coordinator ----------------------------------------------------------------------------

class Coordinator {
 public:
  enum class State { kFencing, kGathering, kWorking, kStopping, kOver };

  // `journal`: the entries of coordinators before this one; empty in the beginning.
  Coordinator(CoordinatorOptions options, std::span<const Entry> journal, SimTime now);

  // A process of that datacenter asks for this rank. True: it has it. Otherwise it is too early,
  // another process has it, or the rank is of another datacenter: the process asks again.
  bool came(MemberId member, size_t seat, const std::string& datacenter, SimTime now);
  // It is alive. Always answered.
  void beat(MemberId member, const Beat& beat, SimTime now);
  // It is known to have stopped for good.
  void ended(MemberId member, const std::string& how, SimTime now);
  // This epoch cannot continue, and no member is to blame; the owner says why. Counts as a loss.
  void halt(const std::string& reason, SimTime now);
  // No process that ever belonged to this run works any more, whatever the leases say.
  void all_ended(SimTime now);
  // Time passes. To be called at least at due().
  void tick(SimTime now);
  SimTime due() const;
  // All members have done this step.
  void stepped(int64_t step);
  // All steps are done, and nothing of them is only in the members' memory: members that end from
  // here on are not missed, not by later coordinators either.
  void done();
  // The run is over: done, or given up by its owner.
  void close(const std::string& reason);

  std::vector<Instruction> orders();  // since the last call

  State state() const { return state_; }
  uint64_t epoch() const { return epoch_; }
  size_t seats() const { return options_.seats.size(); }
  const Seat& seat(size_t number) const;
  // Names of the vacant ranks, for people.
  std::vector<std::string> missing() const;

 private:
  struct Present {
    size_t seat = 0;
    LeaseBook lease;
    bool knows = false;  // it has confirmed that it has a rank in this epoch
  };

  void pass(SimTime now);
  void gather(SimTime now);
  void begin_if_complete(SimTime now);
  void lose(MemberId member, const std::string& how);
  void leave(MemberId member);
  void stop(const std::string& reason);
  void finish_stopping(SimTime now);
  void write(Entry entry) { orders_.push_back(Write{std::move(entry)}); }
  void give_up(const std::string& reason);

  const CoordinatorOptions options_;
  State state_ = State::kGathering;
  uint64_t epoch_ = 0;
  int64_t step_ = 0;
  int losses_ = 0;      // since the last step
  bool begun_ = false;  // all ranks were here once, or an earlier coordinator gathered an epoch
  SimTime now_;         // the latest instant; they do not go back
  SimTime fence_;       // no member of an earlier coordinator holds a lease after this
  SimTime gathering_since_;
  std::vector<std::optional<MemberId>> chairs_;  // by rank
  std::map<MemberId, Present> present_;
  // While all work: no lease ends before this, because beats only make them longer. So a beat looks
  // at its own member alone.
  SimTime quiet_until_;
  std::vector<Instruction> orders_;
};

// --- A member -----------------------------------------------------------------------------------

// One process's view: it beats, and it may work as long as its lease is valid.
class Member {
 public:
  explicit Member(const LeaseTerms& terms) : lease_(terms) {}

  Beat beat(SimTime now) { return lease_.beat(epoch_, now); }
  SimTime next_beat() const { return lease_.next_beat(); }
  void answered(const Grant& grant, SimTime now);

  bool may_work(SimTime now) const { return working_ && !stopped_ && lease_.valid(now); }
  // It had a rank in an epoch that is over for it: it received a stop, or its lease has ended. That
  // is final: a process that continues after this is a new member.
  bool over(SimTime now) const { return stopped_ || (epoch_ > 0 && !lease_.valid(now)); }
  SimTime lease_end() const { return lease_.end(); }
  uint64_t epoch() const { return epoch_; }

 private:
  Lease lease_;
  uint64_t epoch_ = 0;  // 0: none yet
  SimTime seated_;      // when the beat was sent whose answer said so
  bool working_ = false;
  bool stopped_ = false;
};

}  // namespace tombolo::control
