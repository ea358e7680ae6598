#include "predict/network/phase_solver.h"

#include <algorithm>
#include <queue>

#include "base/check.h"
#include "predict/network/phase_state.h"

namespace tombolo::network {
namespace {

bool all_equal(std::span<const SimTime> times) {
  return std::all_of(times.begin(), times.end(), [&](SimTime time) { return time == times[0]; });
}

// One message after the other: t holds when each member has its next message ready.
class Recurrence {
 public:
  Recurrence(const CollectivePhase& phase, const PhaseCosts& costs)
      : phase_(phase), costs_(costs), transfer_(static_cast<size_t>(phase.members())) {}

  void follow(std::span<const SimTime> starts, std::span<MemberEnd> ends) {
    std::vector<int64_t> t, next(starts.size());
    for (const SimTime start : starts) t.push_back((start + costs_.bus).ns);
    // While all members are at one point and their links are alike, the first stands for all.
    bool together = all_equal(starts);
    for (int64_t j = 0; j < phase_.messages(); ++j) {
      prepare(j);
      if (together && !alike_) {
        std::fill(t.begin(), t.end(), t[0]);
        together = false;
      }
      for (size_t m = 0; m < (together ? 1 : t.size()); ++m) {
        const auto from =
            together ? 0 : static_cast<size_t>(phase_.from(static_cast<int32_t>(m), j));
        const int64_t received = std::max(t[from] + transfer_[m], t[m]);
        next[m] = received + after_;
        ends[m] = {{next[m]}, {received + (reduces_ ? costs_.bus.ns : 0)}};
      }
      std::swap(t, next);
    }
    if (together) std::fill(ends.begin(), ends.end(), ends[0]);
  }

 private:
  const CollectivePhase& phase_;
  const PhaseCosts& costs_;
  std::vector<int64_t> transfer_;  // of message j to each member
  bool alike_ = false;             // all of these are equal
  bool reduces_ = false;
  int64_t after_ = 0;  // from having received message j until the next is ready

  bool ring() const { return phase_.spec().choice.algorithm == Algorithm::kRing; }

  void prepare(int64_t j) {
    if (!ring() || j == 0) alike_ = links_alike(j);
    reduces_ = phase_.reduces(j + 1);
    after_ = costs_.bus.ns + (reduces_ ? costs_.reduction(phase_.bytes(j + 1)).ns : 0);
  }

  bool links_alike(int64_t j) {
    for (int32_t m = 0; m < phase_.members(); ++m) {
      transfer_[static_cast<size_t>(m)] = costs_.transfer(phase_.from(m, j), m, phase_.bytes(j)).ns;
    }
    return std::all_of(transfer_.begin(), transfer_.end(),
                       [&](int64_t transfer) { return transfer == transfer_[0]; });
  }
};

// All are done at once: a bus delay after the last message is through the switch.
void follow_switch(const CollectivePhase& phase, const PhaseCosts& costs,
                   std::span<const SimTime> starts, std::span<MemberEnd> ends) {
  SimTime last;
  for (int32_t m = 0; m < phase.members(); ++m) {
    const int32_t from = phase.from(m, 0);
    last = std::max(last, starts[static_cast<size_t>(from)] + costs.bus +
                              costs.transfer(from, m, phase.bytes(0)));
  }
  std::fill(ends.begin(), ends.end(), MemberEnd{last + costs.bus, last});
}

// The state machine on a queue of its own. What a member will do at one instant it does in one go,
// in place of the first of these steps, as ASTRA-sim's ranks do: where a message comes at the very
// instant that another becomes ready, this decides whether a gate is open.
class SmallQueue {
 public:
  SmallQueue(const CollectivePhase& phase, const PhaseCosts& costs, std::span<MemberEnd> ends)
      : state_(phase), costs_(costs), ends_(ends), turns_(ends.size()) {}

  void play(std::span<const SimTime> starts) {
    all_begun_ = *std::max_element(starts.begin(), starts.end());
    for (size_t m = 0; m < starts.size(); ++m) {
      push_own(starts[m], kStart, static_cast<int32_t>(m));
    }
    while (!queue_.empty()) {
      const Step step = queue_.top();
      queue_.pop();
      now_ = step.time;
      known_ = step.known;
      take(step);
      if (step.kind != kArrived && step.kind != kReceived) leave_turn(step);
    }
    CHECK(over_ == starts.size(), "{} of {} members are over", over_, starts.size());
  }

  void send(int32_t from, int32_t to, int64_t bytes) {
    push(now_ + costs_.transfer(from, to, bytes), kArrived, to, from);
  }
  void insert(int32_t m, int64_t bytes, bool reduces) {
    push_own(now_ + costs_.bus, reduces ? kBusDone : kReady, m, bytes);
  }
  void asks(int32_t, int32_t) {}
  void receive_later(int32_t m) { push(now_, kReceived, m, m); }
  void over(int32_t m) {
    // What came last may be ready at once, and what came before it still be reduced.
    ends_[static_cast<size_t>(m)] = {now_, std::max(known_, all_begun_)};
    ++over_;
  }

 private:
  enum Kind : uint8_t { kStart, kArrived, kReceived, kBusDone, kReady };
  struct Step {
    SimTime time;
    SimTime known;      // when it was pushed
    uint64_t turn;      // among those of this instant
    uint64_t sequence;  // within a member's turn
    int64_t bytes;
    int32_t member, source;
    Kind kind;
    bool operator<(const Step& o) const {  // std::priority_queue keeps the greatest on top
      if (time != o.time) return time > o.time;
      return turn != o.turn ? turn > o.turn : sequence > o.sequence;
    }
  };
  struct Turn {  // of a member, at an instant
    SimTime time;
    uint64_t number;
    int32_t steps;  // not done
  };

  void take(const Step& step) {
    switch (step.kind) {
      case kStart:
        return state_.start(step.member, *this);
      case kArrived:
        return state_.arrived(step.member, step.source, *this);
      case kReceived:
        return state_.received(step.member, *this);
      case kBusDone:
        return push_own(now_ + costs_.reduction(step.bytes), kReady, step.member);
      case kReady:
        return state_.ready(step.member, *this);
    }
  }

  void push(SimTime time, Kind kind, int32_t member, int32_t source) {
    queue_.push({time, now_, pushed_, pushed_, 0, member, source, kind});
    ++pushed_;
  }

  // What a member does itself.
  void push_own(SimTime time, Kind kind, int32_t member, int64_t bytes = 0) {
    std::vector<Turn>& turns = turns_[static_cast<size_t>(member)];
    auto turn = std::find_if(turns.begin(), turns.end(),
                             [&](const Turn& other) { return other.time == time; });
    if (turn == turns.end()) turn = turns.insert(turn, {time, pushed_, 0});
    ++turn->steps;
    queue_.push({time, now_, turn->number, pushed_++, bytes, member, 0, kind});
  }

  void leave_turn(const Step& step) {
    std::vector<Turn>& turns = turns_[static_cast<size_t>(step.member)];
    const auto turn = std::find_if(turns.begin(), turns.end(),
                                   [&](const Turn& other) { return other.time == step.time; });
    if (--turn->steps == 0) turns.erase(turn);
  }

  PhaseState state_;
  const PhaseCosts& costs_;
  std::span<MemberEnd> ends_;
  std::vector<std::vector<Turn>> turns_;  // per member, those to come
  std::priority_queue<Step> queue_;
  SimTime now_, known_, all_begun_;
  uint64_t pushed_ = 0;
  size_t over_ = 0;
};

}  // namespace

SimDuration PhaseCosts::transfer(int32_t from, int32_t to, int64_t bytes) const {
  if (!ranks.empty() || all_npus) {
    if (!ranks.empty()) {
      from = ranks[static_cast<size_t>(from)];
      to = ranks[static_cast<size_t>(to)];
    }
    return through_all ? topology->delay_through_all(from, to, bytes)
                       : topology->delay(from, to, bytes);
  }
  if (!places.empty()) {
    from = places[static_cast<size_t>(from)];
    to = places[static_cast<size_t>(to)];
  }
  return topology->delay(dimension, topology->hops(dimension, from, to), bytes);
}

SimDuration PhaseCosts::reduction(int64_t bytes) const {
  if (memory_bytes_per_ns <= 0) return {};
  // In the order of ASTRA-sim's operations, whose rounding shows in the cut.
  const double per_second = memory_bytes_per_ns * 1e9;
  return SimDuration{static_cast<int64_t>(static_cast<double>(bytes) / per_second * 1e9)} * 3;
}

void solve_phase(const CollectivePhase& phase, const PhaseCosts& costs,
                 std::span<const SimTime> starts, std::span<MemberEnd> ends) {
  CHECK(starts.size() == static_cast<size_t>(phase.members()) && ends.size() == starts.size(),
        "{} starts and {} ends for {} members", starts.size(), ends.size(), phase.members());
  if (phase.in_switch()) {
    follow_switch(phase, costs, starts, ends);
  } else if (!phase.is_tree() && phase.window() == 1 && phase.gate() == 0) {
    Recurrence(phase, costs).follow(starts, ends);
  } else {
    SmallQueue(phase, costs, ends).play(starts);
  }
}

}  // namespace tombolo::network
