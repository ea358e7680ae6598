// What ranks report while they perform.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"

namespace tombolo::stage {

// How sparse updates from other datacenters arrived since the previous report, in a run whose density
// may change. Spans are by this rank's clock.
struct ExchangeReport {
  SimDuration computing;  // since then, less `waited`
  SimDuration waited;     // for the exchange, computing nothing
  int64_t bytes = 0;      // received
  SimDuration in_flight;  // while any message was arriving: from its first byte to its last
};

// What a rank computed, in a run that may change the division of its batch.
struct BatchReport {
  int64_t microbatches = 1;  // of its pipeline
  SimDuration computing;     // in forward and backward passes, all microbatches together
  SimDuration passes;        // from the first of them to the last, less waits for gradients
};

// What a rank did in one iteration. Times since the run's origin.
struct IterationReport {
  int64_t iteration = 0;
  SimTime start;                              // of its first computation
  SimTime end;                                // of its update
  std::optional<double> loss;                 // on the last stage: of this replica's microbatches
  std::optional<std::string> weights_digest;  // where replicas are compared
  std::optional<double> late_s;               // of emulated ranks: lost to the machine
  std::optional<double> gradient_norm;        // on the last stage, where it is clipped and finite
  bool update_skipped = false;                // because it was no number
  SimDuration wan_wait;  // for messages from other datacenters, and for sums with replicas there
  std::optional<ExchangeReport> exchange = {};  // where the density may change
  std::optional<BatchReport> batch = {};        // where the batch may
};

// Held-out text after a step, from a rank of the last stage: the mean over its share.
struct Evaluation {
  int64_t step = 0;
  double loss = 0;
  int64_t batches = 1;
};

}  // namespace tombolo::stage
