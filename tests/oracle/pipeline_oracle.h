// The oracle for pipelines: one file, slow, obviously right. Jumps from one moment at which
// something ends to the next, and lets everybody do what may be done.
//
// Shares nothing with schedule/, sim/ and engine/: 1F1B is stated as the rule "hold at most P - s
// microbatches, prefer forward", GPipe as "forward while there are any", fair shares as "take the
// tightest limit, give everybody below it his part, go on with the rest". Everything that moves is
// asked at every step.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace tombolo::oracle {

// How messages cross a boundary, in both directions alike.
struct Boundary {
  double occupancy = 0;  // ticks each, if `size` is 0; every pipeline has its own channel then
  double latency = 0;    // ticks
  // Otherwise they are flows, which share in each direction what their node pair and the path have.
  double size = 0;
  double pair_limit = 0;       // per tick; also of one flow
  double path_limit = 0;       // per tick; 0: none
  std::vector<int> node_pair;  // of each replica: those with equal numbers share pair_limit
};

struct Pipelines {
  bool gpipe = false;
  int stages = 1;
  int microbatches = 1;                           // of each pipeline
  std::vector<int> forward, backward, recompute;  // ticks per stage; recompute 0: none
  std::vector<Boundary> boundaries;
  int replicas = 1;
  int reduce = 0;  // ticks that the sum of a stage's gradients takes when all replicas are there
};

namespace detail {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Rank {
  int forwards = 0, backwards = 0;  // finished
  int doing = 0;                    // 0 nothing, 1 forward, 2 recompute, 3 backward
  bool recomputed = false;
  double until = kNever;
};

struct Channel {
  int handed = 0, sent = 0;  // messages
  bool busy = false;
  double until = kNever;  // where messages occupy it
  double left = 0;        // where they are flows: what has not left yet
  double rate = 0;
  std::vector<double> arrivals;  // when each is there

  bool has(int message, double now) const {
    return message < static_cast<int>(arrivals.size()) && arrivals[message] <= now;
  }
};

// One direction of a boundary: fair shares for the busy channels, by replica.
inline void share(const Boundary& boundary, std::vector<Channel>& channels) {
  const auto count = static_cast<int>(channels.size());
  std::vector<bool> open(count);
  for (int r = 0; r < count; ++r) open[r] = channels[r].busy;
  // Limits with their members: one per node pair, and the path.
  const auto members = [&](int limit) {  // -1: the path
    std::vector<int> out;
    for (int r = 0; r < count; ++r) {
      if (channels[r].busy && (limit < 0 || boundary.node_pair[r] == limit)) out.push_back(r);
    }
    return out;
  };
  while (std::find(open.begin(), open.end(), true) != open.end()) {
    double tightest = kNever;
    std::vector<int> bound;
    for (int limit = boundary.path_limit > 0 ? -1 : 0; limit < count; ++limit) {
      double left = limit < 0 ? boundary.path_limit : boundary.pair_limit;
      std::vector<int> waiting;
      for (const int r : members(limit)) {
        if (open[r]) {
          waiting.push_back(r);
        } else {
          left -= channels[r].rate;
        }
      }
      if (waiting.empty() || left / static_cast<double>(waiting.size()) >= tightest) continue;
      tightest = left / static_cast<double>(waiting.size());
      bound = waiting;
    }
    for (const int r : bound) {
      channels[r].rate = tightest;
      open[r] = false;
    }
  }
}

class Run {
 public:
  explicit Run(const Pipelines& p)
      : p_(p),
        ranks_(p.stages, std::vector<Rank>(p.replicas)),
        up_(p.boundaries.size(), std::vector<Channel>(p.replicas)),
        down_(up_),
        complete_(p.stages, kNever) {}

  double makespan() {
    for (double now = 0;;) {
      // Things without duration follow one another at the same moment: until nothing happens.
      while (step(now)) {
      }
      const double last = *std::max_element(complete_.begin(), complete_.end());
      if (last < kNever) return last + p_.reduce;
      now = go_on(now);
    }
  }

 private:
  bool step(double now) {
    bool something = false;
    for (int s = 0; s < p_.stages; ++s) {
      bool all_done = true;
      for (int r = 0; r < p_.replicas; ++r) {
        something |= finish(s, r, now);
        something |= begin(s, r, now);
        all_done &= ranks_[s][r].backwards == p_.microbatches;
      }
      if (all_done && complete_[s] == kNever) complete_[s] = now;
    }
    for (size_t b = 0; b < p_.boundaries.size(); ++b) {
      for (std::vector<Channel>* channels : {&up_[b], &down_[b]}) {
        bool changed = false;
        for (Channel& channel : *channels) changed |= carry(p_.boundaries[b], channel, now);
        if (changed && p_.boundaries[b].size > 0) share(p_.boundaries[b], *channels);
        something |= changed;
      }
    }
    return something;
  }

  bool finish(int s, int r, double now) {
    Rank& rank = ranks_[s][r];
    if (rank.doing == 0 || rank.until > now) return false;
    if (rank.doing == 1) {
      ++rank.forwards;
      if (s + 1 < p_.stages) ++up_[s][r].handed;
    } else if (rank.doing == 2) {
      rank.recomputed = true;
    } else {
      ++rank.backwards;
      rank.recomputed = false;
      if (s > 0) ++down_[s - 1][r].handed;
    }
    rank.doing = 0;
    return true;
  }

  bool begin(int s, int r, double now) {
    Rank& rank = ranks_[s][r];
    if (rank.doing != 0) return false;
    const int in_flight = rank.forwards - rank.backwards;
    const bool forwards_left = rank.forwards < p_.microbatches;
    if (forwards_left && (p_.gpipe || in_flight < p_.stages - s)) {
      if (s > 0 && !up_[s - 1][r].has(rank.forwards, now)) return false;
      rank.doing = 1;
      rank.until = now + p_.forward[s];
    } else if (rank.backwards < p_.microbatches) {
      if (s + 1 < p_.stages && !down_[s][r].has(rank.backwards, now)) return false;
      const bool recompute = s + 1 < p_.stages && p_.recompute[s] > 0 && !rank.recomputed;
      rank.doing = recompute ? 2 : 3;
      rank.until = now + (recompute ? p_.recompute[s] : p_.backward[s]);
    } else {
      return false;
    }
    return true;
  }

  static bool carry(const Boundary& boundary, Channel& channel, double now) {
    const bool flow = boundary.size > 0;
    const bool gone = flow ? channel.left <= boundary.size * 1e-12 : channel.until <= now;
    bool changed = false;
    if (channel.busy && gone) {
      channel.busy = false;
      channel.arrivals.push_back(now + boundary.latency);
      changed = true;
    }
    if (!channel.busy && channel.sent < channel.handed) {
      ++channel.sent;
      channel.busy = true;
      channel.until = now + boundary.occupancy;
      channel.left = boundary.size;
      changed = true;
    }
    return changed;
  }

  // To the next moment at which something ends or arrives; flows drain on the way.
  double go_on(double now) {
    double next = kNever;
    for (const auto& stage : ranks_) {
      for (const Rank& rank : stage) {
        if (rank.doing != 0) next = std::min(next, rank.until);
      }
    }
    for_each_channel([&](const Boundary& boundary, const Channel& channel) {
      for (const double arrival : channel.arrivals) {
        if (arrival > now) next = std::min(next, arrival);
      }
      if (!channel.busy) return;
      next = std::min(next, boundary.size > 0 ? now + channel.left / channel.rate : channel.until);
    });
    for_each_channel([&](const Boundary& boundary, Channel& channel) {
      if (channel.busy && boundary.size > 0) channel.left -= channel.rate * (next - now);
    });
    return next;
  }
  template <class Visit>
  void for_each_channel(Visit visit) {
    for (size_t b = 0; b < p_.boundaries.size(); ++b) {
      for (std::vector<Channel>* channels : {&up_[b], &down_[b]}) {
        for (Channel& channel : *channels) visit(p_.boundaries[b], channel);
      }
    }
  }

  const Pipelines& p_;
  std::vector<std::vector<Rank>> ranks_;         // [stage][replica]
  std::vector<std::vector<Channel>> up_, down_;  // [boundary][replica]: s -> s+1; s+1 -> s
  std::vector<double> complete_;                 // when a stage's last replica was through
};

}  // namespace detail

// Ticks until every stage's gradients are summed.
inline double makespan(const Pipelines& pipelines) { return detail::Run(pipelines).makespan(); }

}  // namespace tombolo::oracle
