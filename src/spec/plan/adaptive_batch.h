// [parallelism] adaptive_batch: the run changes how many microbatches each pipeline computes. Which Plans allow
// that, and the same Plan with other numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "spec/plan/plan.h"

namespace tombolo::plan {

// Unusable, by key, for what needs the numbers to stay: orders of work that were made for them (a schedule
// found for this Plan, pairs, folded and interleaved stages, cells that share the WAN in time), a memory or a
// count of prompts that follows from them, pipelines that read files of their own, and local steps.
Status check_adaptive_batch(const Plan& plan);

// Sentences: that it has no effect, or which numbers predictions count.
std::vector<std::string> notes_on_adaptive_batch(const Plan& plan);

// The Plan with these numbers of microbatches, one for each pipeline. Fails where the Plan does not let a run
// change them, their sum is not the batch, or a pipeline has fewer microbatches than stages. Cost: a copy.
Result<Plan> with_microbatches(const Plan& plan, const std::vector<int64_t>& each);

// "8,8,8,4"
std::string to_text(const std::vector<int64_t>& microbatches);
// Of every pipeline.
std::vector<int64_t> microbatches_of_all(const Plan& plan);

}  // namespace tombolo::plan
