// A job as the selection of datacenters sees it: P, C, M, the times of a partition and of the WAN.
//
// What [selection] states holds; the rest is derived:
//   P  [parallelism].pipeline; else the fewest stages that fit into the memory of every device,
//      each with the activations that the schedule keeps on it
//   M  what a pipeline runs: its share of [training].global_batch, which is the batch of all
//      pipelines together, here as everywhere. [selection].micro_batches gives every pipeline
//      that many instead, as in the paper: the batch of an iteration then grows with the pipelines
//   C  a transfer over the slowest link between one pair of nodes, over the shortest forward pass,
//      rounded up: as many pipelines as keep the WAN from being the slower one, and no more than
//      there are microbatches
//   f, b  [stage_times], else the law roofline; the slowest stage of each datacenter stands for all
//   w  C x f, [stage_times].transfer, or the bytes of a microbatch over what a cell gets: the
//      rate of one node pair times the pairs (one per pipeline, as far as the nodes go), and no
//      more than its share of the path
//   all-reduce  [stage_times].reduce, else ring-all-reduce over the scale-out network
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "decide/geo/select.h"
#include "spec/plan/open_job.h"

namespace tombolo::geo {

struct SelectionJob {
  SelectionSetting setting;
  std::string pipeline_law;             // "1f1b-cell" or "gpipe-cell"
  std::string allreduce_law;            // "ring-all-reduce", "stage_times.reduce" or "none"
  double communication_to_compute = 0;  // C as a ratio; 0: one datacenter, nothing to compare
  int64_t micro_batch = 1;              // sequences
  bool priced = false;                  // every datacenter has a price
  std::vector<std::string> notes;       // what was derived, and what is left out
};

// Unusable: names that are no datacenter, a schedule that no law knows. Infeasible: no number of
// stages fits into memory, or the stated one does not.
Result<SelectionJob> selection_of(const plan::OpenJob& open);

}  // namespace tombolo::geo
