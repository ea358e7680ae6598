// The oracle for pipelines: one file, slow, obviously right. Advances a clock tick by tick and lets
// everybody do what may be done.
//
// Shares nothing with schedule/ and sim/: 1F1B is stated as the rule "hold at most P - s
// micro-batches, prefer forward", GPipe as "forward while there are any".
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tombolo::oracle {

struct Pipeline {
  bool gpipe = false;
  int stages = 1;
  int microbatches = 1;
  std::vector<int> forward, backward, recompute;  // ticks per stage; recompute 0: none
  std::vector<int> occupancy, latency;            // ticks per boundary, both directions
};

// Ticks until everybody is done.
inline int64_t makespan(const Pipeline& p) {
  struct Rank {
    int forwards = 0, backwards = 0;  // finished
    int64_t busy_until = 0;
    int doing = 0;  // 0 nothing, 1 forward, 2 recompute, 3 backward
    bool recomputed = false;
  };
  struct Channel {
    int handed = 0, sent = 0;  // messages
    int64_t busy_until = 0;
    bool busy = false;
    std::vector<int64_t> arrivals;  // when each is there
  };
  std::vector<Rank> ranks(p.stages);
  std::vector<Channel> up(p.stages), down(p.stages);  // s -> s+1; s+1 -> s
  const auto arrived = [](const Channel& channel, int message, int64_t now) {
    return message < static_cast<int>(channel.arrivals.size()) && channel.arrivals[message] <= now;
  };
  for (int64_t now = 0;; ++now) {
    // Things without duration may follow one another within a tick: go on until nothing happens.
    for (bool something = true; something;) {
      something = false;
      for (int s = 0; s < p.stages; ++s) {
        Rank& rank = ranks[s];
        if (rank.doing != 0 && rank.busy_until <= now) {
          if (rank.doing == 1) {
            ++rank.forwards;
            ++up[s].handed;
          } else if (rank.doing == 2) {
            rank.recomputed = true;
          } else {
            ++rank.backwards;
            rank.recomputed = false;
            if (s > 0) ++down[s - 1].handed;
          }
          rank.doing = 0;
          something = true;
        }
        if (rank.doing != 0) continue;
        const int in_flight = rank.forwards - rank.backwards;
        const bool forwards_left = rank.forwards < p.microbatches;
        const bool wants_forward = forwards_left && (p.gpipe || in_flight < p.stages - s);
        if (wants_forward) {
          if (s > 0 && !arrived(up[s - 1], rank.forwards, now)) continue;
          rank.doing = 1;
          rank.busy_until = now + p.forward[s];
        } else if (rank.backwards < p.microbatches) {
          if (s + 1 < p.stages && !arrived(down[s], rank.backwards, now)) continue;
          const bool recompute = s + 1 < p.stages && p.recompute[s] > 0 && !rank.recomputed;
          rank.doing = recompute ? 2 : 3;
          rank.busy_until = now + (recompute ? p.recompute[s] : p.backward[s]);
        } else {
          continue;
        }
        something = true;
      }
      for (int b = 0; b + 1 < p.stages; ++b) {
        for (Channel* channel : {&up[b], &down[b]}) {
          if (channel->busy && channel->busy_until <= now) {
            channel->busy = false;
            channel->arrivals.push_back(now + p.latency[b]);
            something = true;
          }
          if (!channel->busy && channel->sent < channel->handed) {
            ++channel->sent;
            channel->busy = true;
            channel->busy_until = now + p.occupancy[b];
            something = true;
          }
        }
      }
    }
    if (std::all_of(ranks.begin(), ranks.end(),
                    [&](const Rank& rank) { return rank.backwards == p.microbatches; })) {
      return now;
    }
  }
}

}  // namespace tombolo::oracle
