// How long a forward pass and a backward pass of one rank take when they are co-executed: the
// forward of one microbatch concurrent with the backward of another, so that communication of one
// hides behind computation of the other.
//
// A pair begins when the inputs of both are there. Each side hands over its result when it ends;
// the rank continues when both have. What each takes alone is StageCost's. A stage that recomputes
// does so alone, before the pair.
//
// Source: [stage_times].pair of the job, or a plan of strands (predict/strand).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/units.h"

namespace tombolo::plan {

struct PairCost {
  int32_t forward = 0;   // stage of the forward pass
  int32_t backward = 0;  // stage of the backward pass, on the same rank
  // From the start of the pair.
  Seconds forward_end;
  Seconds backward_end;
  // Names of a layer's operators of both passes, in the order in which they begin, where a plan of
  // strands was made; layer by layer. Empty: both passes take turns.
  std::vector<std::string> order = {};

  Seconds duration() const { return std::max(forward_end, backward_end); }
  bool operator==(const PairCost&) const = default;
};

template <class Archive>
void describe(Archive& a, PairCost& pair) {
  a.required("forward", pair.forward, "stage of the forward pass");
  a.required("backward", pair.backward, "stage of the backward pass, on the same rank");
  a.required("forward_end", pair.forward_end, "from the start of the pair");
  a.required("backward_end", pair.backward_end, "from the start of the pair");
  if (Archive::kReads || !pair.order.empty()) {
    a.optional("order", pair.order,
               "operators of a layer of both passes, as they begin; left out: by turns");
  }
}

}  // namespace tombolo::plan
