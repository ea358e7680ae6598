// Coordinator: who belongs to a run, and when all may work.
//
// A run has seats, one per rank, each in a datacenter. Processes come and take seats; when all are
// taken, an epoch begins and everybody works. When one of them is lost, everybody stops, and when
// it is certain that nobody works any more, the next epoch gathers: survivors come back, and new
// processes take the seats of those who do not.
//
//   fencing ──> gathering ──all seats taken──> working ──one lost──> stopping
//   (after a      ^                                                     |
//    restart)     └────────────── nobody left: the next epoch ──────────┘
//
// What holds, whatever is delayed, lost, cut off, killed or restarted:
//   - Two epochs never work at once. A member works only under a lease (lease.h), and an epoch
//     gathers only once each member of the one before is known to have ended or its lease is over.
//     After a restart the coordinator knows no leases, and waits for the longest there can be.
//   - No part goes on alone. An epoch begins only with all seats taken, each from its own
//     datacenter, by members who hold leases and have said so: that a member is heard does not mean
//     that it hears. A datacenter that is cut off has no coordinator, and stops when its leases
//     end; or it has the coordinator, which stops its members and gathers until the others are
//     back.
//   - An epoch's number is on disk before anybody hears it, and is never used twice.
//
// A state machine: instants, which do not go back, and what happened go in; orders come out, to be
// carried out in their order. A Write that fails ends the run. Cost: O(seats) per call, but for
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
  // For all to come; left out: as long as it takes. Where no epoch has begun before, the run is
  // over then. Later it counts as a loss, and the next epoch gathers.
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
  std::optional<size_t> seat;  // where it sits
};
// All seats are taken: everybody works.
struct Begin {
  uint64_t epoch = 0;
};
// Who sat here is gone, and this is how; while all gather, the seat is free again.
struct Lost {
  size_t seat = 0;
  std::string reason;
};
// Everybody stops.
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

  // A process of that datacenter wants this seat. True where it has it. Otherwise it is too early,
  // somebody sits there, or the seat is of another datacenter: it asks again.
  bool came(MemberId member, size_t seat, const std::string& datacenter, SimTime now);
  // It is alive. Always answered.
  void beat(MemberId member, const Beat& beat, SimTime now);
  // It is known not to work any more, and not to begin again.
  void ended(MemberId member, const std::string& how, SimTime now);
  // This epoch cannot go on, and no member is to blame; its owner says why. Counts as a loss.
  void halt(const std::string& reason, SimTime now);
  // Nobody who ever belonged to this run works any more, whatever the leases say.
  void all_ended(SimTime now);
  // Time passes. To be called at least at due().
  void tick(SimTime now);
  SimTime due() const;
  // All members have done this step.
  void stepped(int64_t step);
  // All steps are done, and nothing of them is only in the members' memory: who ends from here on
  // is not missed, by the coordinators after this one either.
  void done();
  // The run is over: done, or given up by its owner.
  void close(const std::string& reason);

  std::vector<Instruction> orders();  // since the last call

  State state() const { return state_; }
  uint64_t epoch() const { return epoch_; }
  size_t seats() const { return options_.seats.size(); }
  const Seat& seat(size_t number) const;
  // Names of the seats that nobody sits in, for people.
  std::vector<std::string> missing() const;

 private:
  struct Present {
    size_t seat = 0;
    LeaseBook lease;
    bool knows = false;  // it has heard that it sits in this epoch
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
  bool begun_ = false;  // an epoch, in this life or one before: all have been there once
  SimTime now_;         // the latest instant; they do not go back
  SimTime fence_;       // nobody of an earlier life holds a lease after this
  SimTime gathering_since_;
  std::vector<std::optional<MemberId>> chairs_;  // by seat
  std::map<MemberId, Present> present_;
  // While all work: no lease ends before, because beats only make them longer. So a beat looks at
  // its own member alone.
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
  // It sat in an epoch that is over for it: it was told to stop, or its lease has ended. For good:
  // a process that goes on after this is a new member.
  bool over(SimTime now) const { return stopped_ || (epoch_ > 0 && !lease_.valid(now)); }
  SimTime lease_end() const { return lease_.end(); }
  uint64_t epoch() const { return epoch_; }

 private:
  Lease lease_;
  uint64_t epoch_ = 0;  // 0: none yet
  SimTime seated_;      // the beat whose answer said so
  bool working_ = false;
  bool stopped_ = false;
};

}  // namespace tombolo::control
