// Published memory of one device by kind, without a time: Korthikanti et al. 2022, figures 1 and 7.
//
// Figure 1 has GiB of weights with optimizer, or of activations, on the first pipeline stage;
// figure 7 has activations as percent of those with tensor parallelism alone. The runs are those of
// table 5.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "spec/plan/job.h"

namespace tombolo::published {

struct ReferenceMemory {
  enum class Kind { kState, kActivations };
  std::string name;  // "fig7 22B selective+seq"
  plan::Job job;
  Kind kind = Kind::kActivations;
  std::optional<plan::Job> baseline;  // `published` is percent of this job's; left out: GiB
  double published = 0;
};

// From `folder`, or the program's copy where that is empty.
Result<std::vector<ReferenceMemory>> read_reference_memory(const std::string& folder);

}  // namespace tombolo::published
