// Decisions: what a job says and its Plan takes over as it is. Both embed this one value, so that whatever is added here is in
// the job, in the Plan, in the Plan read as a job again, and in every variant of it.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "spec/cluster/cluster.h"
#include "spec/layout/parallelism.h"
#include "spec/plan/data_settings.h"
#include "spec/plan/exchange_settings.h"
#include "spec/plan/prefill_settings.h"
#include "spec/plan/settings.h"

namespace tombolo::plan {

struct Decisions {
  std::string name;
  cluster::Cluster cluster;
  Training training;
  Optimizer optimizer;
  layout::Parallelism parallelism;
  std::optional<Exchange> exchange;  // left out: as Exchange has it
  std::optional<Data> data;
  Run run;
  std::optional<Checkpoint> checkpoint;
  std::optional<Prefill> prefill;  // what is served from the bubbles; left out: nothing

  // Of each pipeline; where they differ, of the one with the most.
  int64_t microbatches() const {
    CHECK(training.micro_batch >= 1 && parallelism.data >= 1, "microbatches of {} in {} pipelines",
          training.micro_batch, parallelism.data);
    const std::vector<int64_t>& each = parallelism.microbatches_per_replica;
    return each.empty() ? training.global_batch / (training.micro_batch * parallelism.data)
                        : *std::max_element(each.begin(), each.end());
  }
  int64_t microbatches_of(int32_t replica) const {
    const std::vector<int64_t>& each = parallelism.microbatches_per_replica;
    return each.empty() ? microbatches() : each[static_cast<size_t>(replica)];
  }
  int32_t replicas() const { return static_cast<int32_t>(parallelism.data); }

  // Of each GPU, kept for the weights that serve prompts, whatever training needs.
  Bytes prefill_memory() const { return prefill ? prefill->memory : Bytes{}; }

  bool operator==(const Decisions&) const = default;
};

// Bytes of one number of a gradient when it is summed, by the precision and by what the stack
// documents. Everything that counts bytes asks here; constants that are fitted to measurements
// change times alone.
double gradient_bytes(const Decisions& decisions);

// What each end of a pipeline sends the other of a tied embedding's gradients, all shards together:
// all of its own, so that each adds the two (as many bytes as an all-reduce between two). 0 where
// nothing is tied.
Bytes tied_bytes(const Decisions& decisions, const model::Model& model);

}  // namespace tombolo::plan
