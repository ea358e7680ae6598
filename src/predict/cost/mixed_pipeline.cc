#include "predict/cost/mixed_pipeline.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace tombolo::cost {
namespace {

void check_shape(std::span<const StagePass> stages, std::span<const Hop> hops) {
  CHECK(!stages.empty() && hops.size() + 1 == stages.size(), "{} stages, {} hops", stages.size(),
        hops.size());
}

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

}  // namespace

Seconds period(std::span<const StagePass> stages, std::span<const Hop> hops) {
  check_shape(stages, hops);
  Seconds most;
  for (const Hop& hop : hops) most = std::max(most, hop.occupancy);
  for (size_t i = 0; i < stages.size(); ++i) {
    Seconds run;
    for (size_t j = i; j < stages.size(); ++j) {
      run += stages[j].total();
      if (j > i) run += 2 * hops[j - 1].exposed;
      most = std::max(most, run / real(j - i + 1));
    }
  }
  return most;
}

Seconds round_trip(std::span<const StagePass> stages, std::span<const Hop> hops) {
  check_shape(stages, hops);
  Seconds sum;
  for (const StagePass& stage : stages) sum += stage.total();
  for (const Hop& hop : hops) sum += 2 * hop.transfer;
  return sum;
}

Seconds mixed_pipeline(std::span<const StagePass> stages, std::span<const Hop> hops,
                       int64_t microbatches) {
  CHECK(microbatches >= 1, "{} microbatches", microbatches);
  return round_trip(stages, hops) + static_cast<double>(microbatches - 1) * period(stages, hops);
}

MixedIteration mixed_iteration(std::span<const StagePass> stages, std::span<const Hop> hops,
                               std::span<const Seconds> ends, int64_t microbatches) {
  constexpr int64_t kPlayedMax = 5'000'000;  // passes
  CHECK(ends.size() == stages.size(), "{} ends of {} stages", ends.size(), stages.size());
  MixedIteration out;
  out.round_trip = round_trip(stages, hops);
  out.period = period(stages, hops);
  out.end = *std::max_element(ends.begin(), ends.end());
  out.iteration = mixed_pipeline(stages, hops, microbatches) + out.end;
  if (microbatches <= kPlayedMax / std::ssize(stages)) {
    out.played = play_one_forward_one_backward(stages, hops, microbatches) + out.end;
  }
  return out;
}

Seconds play_one_forward_one_backward(std::span<const StagePass> stages, std::span<const Hop> hops,
                                      int64_t microbatches) {
  check_shape(stages, hops);
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
