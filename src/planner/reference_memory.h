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
#include "planner/reference_score.h"

namespace tombolo::planner {

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

struct ScoredMemory {
  const ReferenceMemory* row = nullptr;
  double predicted = 0;  // in the unit of `published`
  double error() const { return predicted / row->published - 1; }
};

// Fails where the law does, or keeps no kinds of memory apart. The rows must outlive the answer.
Result<std::vector<ScoredMemory>> score_memory(const std::vector<ReferenceMemory>& rows,
                                               const Predictor& predict);

}  // namespace tombolo::planner
