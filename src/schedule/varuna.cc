#include <algorithm>
#include <optional>

#include "base/check.h"
#include "schedule/policy.h"

namespace tombolo::schedule {
namespace {

using trace::ActionKind;

// Plays the pipeline in time: whoever is free picks by the rules, and what it picked is its order.
class Player {
 public:
  Player(const Shape& shape, const Times& times) : shape_(shape), times_(times) {
    const std::vector<std::optional<SimTime>> unknown(static_cast<size_t>(shape.microbatches));
    stages_.resize(static_cast<size_t>(shape.stages));
    for (Stage& stage : stages_) stage.inputs = stage.gradients = unknown;
    stages_.front().inputs.assign(unknown.size(), SimTime{});
  }

  std::vector<Order> run() {
    std::optional<SimTime> now = SimTime{};
    while (now) {
      // Backwards tell earlier stages what is coming, so late stages pick first; again, while that
      // opens something at this very moment.
      bool picked = true;
      while (picked) {
        picked = false;
        for (int32_t s = shape_.stages - 1; s >= 0; --s) {
          if (at(s).free <= *now) picked = pick(s, *now) || picked;
        }
      }
      now = next_moment(*now);
    }
    std::vector<Order> orders;
    for (Stage& stage : stages_) {
      CHECK(stage.backwards == shape_.microbatches, "a stage did {} of {} backwards",
            stage.backwards, shape_.microbatches);
      orders.push_back(std::move(stage.order));
    }
    return orders;
  }

 private:
  struct Stage {
    SimTime free = {};
    int32_t forwards = 0;  // done, or under way
    int32_t recomputes = 0;
    int32_t backwards = 0;
    SimTime link_down = {}, link_up = {};  // free again
    // When they are (or will be) there, as soon as it is known.
    std::vector<std::optional<SimTime>> inputs = {}, gradients = {};
    Order order = {};
  };

  Stage& at(int32_t stage) { return stages_[static_cast<size_t>(stage)]; }
  const StageDurations& times(int32_t stage) const {
    return times_.stages[static_cast<size_t>(stage)];
  }

  // Whether it found something to do.
  bool pick(int32_t s, SimTime now) {
    Stage& stage = at(s);
    const int32_t m = stage.backwards;
    if (m == shape_.microbatches) return false;
    const bool recompute = shape_.recomputes(s) && stage.recomputes == m;
    const std::optional<SimTime> gradient = stage.gradients[static_cast<size_t>(m)];
    if (gradient && *gradient <= now && !recompute) {
      backward(s, now);
      return true;
    }
    // Memory is taken once recomputed: nothing else until the gradient is there.
    if (shape_.recomputes(s) && stage.recomputes > m) return false;
    if (gradient && *gradient <= now + times(s).recompute && recompute) {
      stage.order.push_back({ActionKind::kRecompute, s, stage.recomputes++});
      stage.free = now + times(s).recompute;
      return true;
    }
    if (stage.forwards == shape_.microbatches) return false;
    const std::optional<SimTime> input = stage.inputs[static_cast<size_t>(stage.forwards)];
    if (!input || *input > now) return false;
    forward(s, now);
    return true;
  }

  void forward(int32_t s, SimTime now) {
    Stage& stage = at(s);
    const auto m = static_cast<size_t>(stage.forwards);
    stage.order.push_back({ActionKind::kForward, s, stage.forwards++});
    stage.free = now + times(s).forward;
    if (s + 1 == shape_.stages) {
      stage.gradients[m] = stage.free;
      return;
    }
    stage.link_down = std::max(stage.link_down, stage.free) + times_.transfer_over(s);
    at(s + 1).inputs[m] = stage.link_down;
  }

  void backward(int32_t s, SimTime now) {
    Stage& stage = at(s);
    const auto m = static_cast<size_t>(stage.backwards);
    stage.order.push_back({ActionKind::kBackward, s, stage.backwards++});
    stage.free = now + times(s).backward();
    if (s == 0) return;
    stage.link_up = std::max(stage.link_up, stage.free) + times_.transfer_over(s - 1);
    at(s - 1).gradients[m] = stage.link_up;
  }

  // When anything can change after now: a stage is free, something is there, or a recomputation is
  // due. None where everything is done.
  std::optional<SimTime> next_moment(SimTime now) {
    std::optional<SimTime> next;
    const auto consider = [&](SimTime time) {
      if (time > now && (!next || time < *next)) next = time;
    };
    for (int32_t s = 0; s < shape_.stages; ++s) {
      const Stage& stage = at(s);
      if (stage.backwards == shape_.microbatches) continue;
      consider(stage.free);
      if (const auto gradient = stage.gradients[static_cast<size_t>(stage.backwards)]) {
        consider(*gradient);
        consider(*gradient - times(s).recompute);
      }
      if (stage.forwards == shape_.microbatches) continue;
      if (const auto input = stage.inputs[static_cast<size_t>(stage.forwards)]) consider(*input);
    }
    return next;
  }

  const Shape& shape_;
  const Times& times_;
  std::vector<Stage> stages_;
};

}  // namespace

std::vector<Order> varuna(const Shape& shape, const Times& times) {
  return Player(shape, times).run();
}

}  // namespace tombolo::schedule
