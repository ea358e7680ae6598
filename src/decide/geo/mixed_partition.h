// Layers for the stages of a mixed pipeline: the partition with the shortest iteration, exactly.
//
// Given p stages with their devices, how many layers does each get? By the law `mixed-pipeline` an
// iteration is a round trip, m - 1 periods and, once, what the slowest stage needs for its
// gradients and its optimizer. Three nested steps:
//
//   fill     For a given period the partition with the shortest round trip. Stages are filled from
//            first to last; what a prefix leaves to its successor is one number, the charge of its
//            transfers that its own stages have no time for (Hall's condition in
//            mixed_pipeline.h). States with the same layers used compete in (charge, round trip).
//   period   From the shortest possible period upwards; longer ones are worth a look only while
//            (m - 1) period plus the shortest round trip is below the best found.
//   end      The same with the end of the iteration held below the last one's, until no shorter end
//            could pay.
//
// Cost: O(stages x layers x layers per stage) per fill at most, some ten fills; usually far less,
// because near the shortest period few numbers of layers are possible for a stage.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "predict/cost/mixed_pipeline.h"

namespace tombolo::geo {

// What a stage with a given number of layers takes.
struct StageNumbers {
  double pass = 0;  // forward and backward of one microbatch, s; grows with the layers
  double end = 0;   // gradients and optimizer, once per iteration, s
};

// By the first layer and the number of layers. The first `special` layers of a model may differ
// from the others, which are all alike: rows 0 .. special, the last for all later ones.
struct StageTable {
  std::vector<std::vector<StageNumbers>> rows;  // rows[r][layers - 1]

  size_t row(int64_t first) const {
    return static_cast<size_t>(std::min<int64_t>(first, static_cast<int64_t>(rows.size()) - 1));
  }
  const StageNumbers& at(int64_t first, int64_t layers) const {
    return rows[row(first)][static_cast<size_t>(layers - 1)];
  }
};

struct PartitionStage {
  const StageTable* table = nullptr;
  std::vector<int64_t> most;  // layers that memory holds, by row of the table
  double tied = 0;  // behind its gradients: those of a tied embedding go to the last stage, s

  double end_of(const StageNumbers& numbers) const { return numbers.end + tied; }
};

struct PartitionProblem {
  int64_t layers = 1;
  int64_t microbatches = 1;
  std::vector<PartitionStage> stages;
  std::vector<cost::Hop> hops;
};

struct Partition {
  std::vector<int64_t> layers;
  double round_trip = 0, period = 0, end = 0;  // s
  double total = 0;                            // round trip + (m - 1) period + end
};

// The best partition with a total below `limit`; empty where there is none. Of equally good ones,
// always the same.
std::optional<Partition> best_partition(const PartitionProblem& problem, double limit);

// What a given partition takes. CHECKs that it covers the layers.
Partition price_partition(const PartitionProblem& problem, std::vector<int64_t> layers);

}  // namespace tombolo::geo
