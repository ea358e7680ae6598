// From a layer to the stages of a Plan: what a forward and a backward of whole stages take when
// they are co-executed, where it is known of a layer.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "spec/plan/plan.h"

namespace tombolo::plan {

// One layer's forward of a microbatch and its backward of another.
struct LayerPair {
  Seconds apart;     // one after the other
  Seconds together;  // co-executed
  // When either side ends within `together`.
  Seconds forward_end;
  Seconds backward_end;
  std::vector<std::string> order = {};  // PairCost::order
  bool measured = false;                // and not priced as the stages are

  bool operator==(const LayerPair&) const = default;
};

// Of a Plan that folds the model: each stage's forward co-executed with the backward of the other stage
// on its rank, by the forward's stage. As many layers as both have are co-executed, each saving what a
// layer saves; what a stage has beyond those (more layers, embedding, head) runs alone. A side of that
// many layers ends within the last of them as it does within a layer; a longer one with the pair. Where
// the law `tombolo` priced both, a layer apart takes what the stages say; elsewhere its times are
// scaled so that it does. CHECKs that the Plan folds the model once.
std::vector<PairCost> pair_costs(const Plan& plan, const LayerPair& layer);

}  // namespace tombolo::plan
