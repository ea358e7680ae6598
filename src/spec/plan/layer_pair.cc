#include "spec/plan/layer_pair.h"

#include <algorithm>
#include <optional>

#include "base/check.h"

namespace tombolo::plan {

namespace {

// A forward and a backward pass of the stage whose layers take least: others hold embedding or head too.
Seconds apart_in(const Plan& plan) {
  std::optional<Seconds> least;
  for (const Stage& stage : plan.stages) {
    if (stage.slice.layers == 0) continue;
    const Seconds here =
        (stage.cost.forward + stage.cost.backward) / static_cast<double>(stage.slice.layers);
    if (!least || here < *least) least = here;
  }
  return least.value_or(0_s);
}

}  // namespace

std::vector<PairCost> pair_costs(const Plan& plan, const LayerPair& given) {
  LayerPair layer = given;
  if (given.measured || plan.cost_source != CostSource::kTombolo) {
    const double scale = apart_in(plan).value / given.apart.value;
    for (Seconds* const each :
         {&layer.apart, &layer.together, &layer.forward_end, &layer.backward_end})
      *each = *each * scale;
  }
  CHECK(plan.parallelism.mapping() == layout::StageMapping::kFold && plan.stages.size() % 2 == 0,
        "schedule \"{}\" with {} stages folds nothing", to_name(plan.parallelism.schedule),
        plan.stages.size());
  CHECK(given.together > 0_s && layer.together <= layer.apart &&
            std::max(layer.forward_end, layer.backward_end) <= layer.together * 1.000001,
        "a pair of {} s instead of {} s", layer.together.value, layer.apart.value);
  std::vector<PairCost> pairs;
  const size_t stages = plan.stages.size();
  for (size_t s = 0; s < stages; ++s) {
    const Stage &forward = plan.stages[s], &backward = plan.stages[stages - 1 - s];
    const int64_t beside = std::min(forward.slice.layers, backward.slice.layers);
    const Seconds alone = std::max(forward.cost.forward, backward.cost.backward);
    const Seconds saved = (layer.apart - layer.together) * static_cast<double>(beside);
    const Seconds all = std::max(alone, forward.cost.forward + backward.cost.backward - saved);
    const auto end = [&](const Stage& stage, Seconds in_layer, Seconds least) {
      const Seconds early = stage.slice.layers == beside && beside > 0
                                ? std::max(0_s, layer.together - in_layer)
                                : 0_s;
      return std::max(least, all - early);
    };
    pairs.push_back({.forward = static_cast<int32_t>(s),
                     .backward = static_cast<int32_t>(stages - 1 - s),
                     .forward_end = end(forward, layer.forward_end, forward.cost.forward),
                     .backward_end = end(backward, layer.backward_end, backward.cost.backward),
                     .order = layer.order});
  }
  return pairs;
}

}  // namespace tombolo::plan
