#include "network/phase_solver.h"

#include <algorithm>
#include <queue>

#include "base/check.h"
#include "network/phase_state.h"

namespace tombolo::network {
namespace {

// One message after the other: t holds when each member has its next message ready.
void follow_recurrence(const CollectivePhase& phase, const PhaseCosts& costs,
                       std::span<const SimTime> starts, std::span<MemberEnd> ends) {
  const int32_t n = phase.members();
  const bool ring = phase.spec().choice.algorithm == Algorithm::kRing;
  std::vector<int64_t> t(starts.size()), next(starts.size()), transfer(starts.size());
  for (int32_t m = 0; m < n; ++m)
    t[static_cast<size_t>(m)] = (starts[static_cast<size_t>(m)] + costs.bus).ns;
  for (int64_t j = 0; j < phase.messages(); ++j) {
    if (!ring || j == 0) {
      for (int32_t m = 0; m < n; ++m) {
        transfer[static_cast<size_t>(m)] = costs.transfer(phase.from(m, j), m, phase.bytes(j)).ns;
      }
    }
    const bool reduces = phase.reduces(j + 1);
    const int64_t bus = costs.bus.ns;
    const int64_t after = bus + (reduces ? costs.reduction(phase.bytes(j + 1)).ns : 0);
    for (int32_t m = 0; m < n; ++m) {
      const auto i = static_cast<size_t>(m);
      const int64_t received =
          std::max(t[static_cast<size_t>(phase.from(m, j))] + transfer[i], t[i]);
      next[i] = received + after;
      ends[i] = {{next[i]}, {received + (reduces ? bus : 0)}};
    }
    std::swap(t, next);
  }
}

// The state machine on a queue of its own.
class SmallQueue {
 public:
  SmallQueue(const CollectivePhase& phase, const PhaseCosts& costs, std::span<MemberEnd> ends)
      : state_(phase), costs_(costs), ends_(ends) {}

  void play(std::span<const SimTime> starts) {
    for (size_t m = 0; m < starts.size(); ++m) push(starts[m], kStart, static_cast<int32_t>(m));
    while (!queue_.empty()) {
      const Step step = queue_.top();
      queue_.pop();
      now_ = step.time;
      known_ = step.known;
      switch (step.kind) {
        case kStart:
          state_.start(step.member, *this);
          break;
        case kArrived:
          state_.arrived(step.member, step.source, *this);
          break;
        case kReceived:
          state_.received(step.member, *this);
          break;
        case kBusDone:
          push(now_ + costs_.reduction(step.bytes), kReady, step.member);
          break;
        case kReady:
          state_.ready(step.member, *this);
          break;
      }
    }
    CHECK(over_ == starts.size(), "{} of {} members are over", over_, starts.size());
  }

  void send(int32_t from, int32_t to, int64_t bytes) {
    push(now_ + costs_.transfer(from, to, bytes), kArrived, to, from);
  }
  void insert(int32_t m, int64_t bytes, bool reduces) {
    push(now_ + costs_.bus, reduces ? kBusDone : kReady, m, 0, bytes);
  }
  void receive_later(int32_t m) { push(now_, kReceived, m); }
  void over(int32_t m) {
    ends_[static_cast<size_t>(m)] = {now_, known_};
    ++over_;
  }

 private:
  enum Kind : uint8_t { kStart, kArrived, kReceived, kBusDone, kReady };
  struct Step {
    SimTime time;
    SimTime known;  // when it was pushed
    uint64_t sequence;
    int64_t bytes;
    int32_t member, source;
    Kind kind;
    bool operator<(const Step& o) const {  // std::priority_queue keeps the greatest on top
      return time != o.time ? time > o.time : sequence > o.sequence;
    }
  };
  void push(SimTime time, Kind kind, int32_t member, int32_t source = 0, int64_t bytes = 0) {
    queue_.push({time, now_, pushed_++, bytes, member, source, kind});
  }

  PhaseState state_;
  const PhaseCosts& costs_;
  std::span<MemberEnd> ends_;
  std::priority_queue<Step> queue_;
  SimTime now_, known_;
  uint64_t pushed_ = 0;
  size_t over_ = 0;
};

}  // namespace

SimDuration PhaseCosts::transfer(int32_t from, int32_t to, int64_t bytes) const {
  if (!ranks.empty()) {
    return topology->delay(ranks[static_cast<size_t>(from)], ranks[static_cast<size_t>(to)], bytes);
  }
  return topology->delay(dimension, topology->hops(dimension, from, to), bytes);
}

SimDuration PhaseCosts::reduction(int64_t bytes) const {
  if (memory_bytes_per_ns <= 0) return {};
  return SimDuration{static_cast<int64_t>(static_cast<double>(bytes) / memory_bytes_per_ns)} * 3;
}

void solve_phase(const CollectivePhase& phase, const PhaseCosts& costs,
                 std::span<const SimTime> starts, std::span<MemberEnd> ends) {
  CHECK(starts.size() == static_cast<size_t>(phase.members()) && ends.size() == starts.size(),
        "{} starts and {} ends for {} members", starts.size(), ends.size(), phase.members());
  if (!phase.is_tree() && phase.window() == 1 && phase.gate() == 0) {
    follow_recurrence(phase, costs, starts, ends);
  } else {
    SmallQueue(phase, costs, ends).play(starts);
  }
}

}  // namespace tombolo::network
