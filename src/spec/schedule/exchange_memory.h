// What a rank keeps in memory from iteration to iteration because of its Plan's [exchange], in
// addition to the weights, gradients and moments of Stage::state. One float32 for each parameter of a
// shard:
//
//   residuals   of the groups in which it leads (sparse_exchange.h), where updates are sparse
//   anchor      with local steps
//   momentum    the outer one, where it is above 0
//   arrived     a mean that came before its time, where there is a delay
//
// and with mode = "sparse" four bytes for each block of 16, the step of its last gradient
// (perform/update/sparse.h). What lives only while an update is made is not counted.
// Parameters are the model's, whatever width their gradients travel in; those of experts count as if
// no others shared them. `byte_scale` is ignored. Cost: as gradient_groups().
#pragma once

#include "base/units.h"
#include "spec/plan/plan.h"

namespace tombolo::schedule {

struct ExchangeMemory {
  Bytes residuals, anchor, momentum, arrived, last_steps;

  Bytes total() const { return residuals + anchor + momentum + arrived + last_steps; }
  bool operator==(const ExchangeMemory&) const = default;
};

// Of one stage of a rank. Zero where its replicas exchange nothing over a WAN.
ExchangeMemory exchange_memory(const plan::Plan& plan, int32_t rank, int32_t stage);

}  // namespace tombolo::schedule
