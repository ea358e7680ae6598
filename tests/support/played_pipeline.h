// 1F1B over unlike stages played action by action: the oracle of the law `mixed-pipeline`.
#pragma once

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "predict/cost/mixed_pipeline.h"

namespace tombolo::cost {

// One stage while 1F1B is played: its place in the order of its actions.
class Player {
 public:
  Player(int64_t warm_up, int64_t microbatches) : warm_up_(warm_up), all_(microbatches) {}

  bool done() const { return backwards_ == all_; }
  // Forwards first; then one backward, one forward in turn, until forwards run out.
  bool forward_is_next() const { return forwards_ < all_ && forwards_ <= warm_up_ + backwards_; }
  int64_t next() const { return forward_is_next() ? forwards_ : backwards_; }
  void take(bool forward) { ++(forward ? forwards_ : backwards_); }

  Seconds free;

 private:
  int64_t warm_up_, all_, forwards_ = 0, backwards_ = 0;
};

// The law's pipeline, with `transfer` exposed in full; what the simulator finds where flows do not
// share. Cost: O(stages x microbatches).
inline Seconds play_one_forward_one_backward(std::span<const StagePass> stages,
                                             std::span<const Hop> hops, int64_t microbatches) {
  CHECK(microbatches >= 1, "{} microbatches", microbatches);
  const size_t p = stages.size();
  const auto m = static_cast<size_t>(microbatches);
  constexpr Seconds kNotYet{-1};
  // When an activation has come down to a stage, a gradient up to it.
  std::vector<Seconds> activation(p * m, kNotYet), gradient(p * m, kNotYet);
  std::vector<Seconds> down_free(p), up_free(p);
  std::fill_n(activation.begin(), m, Seconds{0});
  std::vector<Player> players;
  for (size_t s = 0; s < p; ++s) {
    players.emplace_back(std::min<int64_t>(microbatches, static_cast<int64_t>(p - 1 - s)),
                         microbatches);
  }
  const auto send = [](Seconds ready, const Hop& hop, Seconds& link_free) {
    const Seconds begin = std::max(ready, link_free);
    link_free = begin + hop.occupancy;
    return begin + hop.transfer;
  };
  // Each round lets every stage go as far as it can; a stage that waits goes on in a later one.
  while (!players[0].done()) {
    for (size_t s = 0; s < p; ++s) {
      Player& player = players[s];
      while (!player.done()) {
        const bool forward = player.forward_is_next();
        const auto k = static_cast<size_t>(player.next());
        const Seconds input = (forward ? activation : gradient)[s * m + k];
        if (input == kNotYet) break;
        player.free =
            std::max(player.free, input) + (forward ? stages[s].forward : stages[s].backward);
        player.take(forward);
        if (forward && s + 1 < p) {
          activation[(s + 1) * m + k] = send(player.free, hops[s], down_free[s]);
        } else if (forward) {
          gradient[s * m + k] = player.free;
        } else if (s > 0) {
          gradient[(s - 1) * m + k] = send(player.free, hops[s - 1], up_free[s]);
        }
      }
    }
  }
  return players[0].free;
}

}  // namespace tombolo::cost
