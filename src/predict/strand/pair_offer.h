// What strands offer a pipeline: how long a forward and a backward of a job's layer take when
// co-executed, or why they should run one after the other.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "predict/strand/gain_spread.h"
#include "predict/strand/overlap_profile.h"
#include "spec/plan/job.h"
#include "spec/plan/layer_pair.h"
#include "spec/plan/plan.h"

namespace tombolo::strand {

struct PairOffer {
  std::optional<plan::LayerPair> layer;  // left out: do without
  GainSpread gain;                       // over both strands alone, under errors
  Bytes memory_more;                     // activations: a layer of a second microbatch
  std::string why_not;                   // where it is left out
};

// Plans the strands of a layer (plan_strands.h), with events; by the job's strands_profile, where it has
// one. A recomputation stays outside: in a
// schedule it runs alone, before the pair. Nothing to hide, a gain below the noise, a stack that
// already hides as much, and layers of two kinds are answers, given in why_not. Unusable: what no
// law can price. Cost: that of a search, some 10 to 500 ms.
Result<PairOffer> offer_pairs(const plan::Job& job);

// The job's strands_profile, read; nothing where it has none.
Result<std::optional<Profile>> profile_of(const plan::Job& job);

// Whether times of operators are available where stages are priced by `source`.
bool may_offer(const plan::Job& job, plan::CostSource source);

}  // namespace tombolo::strand
