// Which parts of a stage's state each of its replicas holds.
#pragma once

#include <cstdint>
#include <string>

#include "spec/plan/plan.h"

namespace tombolo::kernels {

// Each replica of a stage holds and writes a part of its state: of the optimizer's (ZeRO-1), or of the
// residuals of sparse updates (exchange/sparse_updates.h; the first replica writes what all hold).
// With local steps the replicas of each datacenter hold parameters of their own. If replicas share out
// experts, each holds its part. Else all hold the same, and the first one writes.
bool shards_optimizer(const plan::Plan& plan);
bool holds_residuals(const plan::Plan& plan);
bool steps_locally(const plan::Plan& plan);
// How many replicas together have all experts of a layer; 1 where each of them has. A replica's shards read
// one memory, so that context parallelism, which experts are spread over first, leaves fewer.
int64_t replicas_per_experts(const plan::Plan& plan);
inline bool shares_out_state(const plan::Plan& plan) {
  return shards_optimizer(plan) || holds_residuals(plan) || steps_locally(plan) ||
         replicas_per_experts(plan) > 1;
}
// Whether this rank writes parameters and what belongs to them, and what their names end with:
// ".in.DATACENTER" with local steps, but for the datacenter of the first replica.
bool writes_parameters(const plan::Plan& plan, int32_t rank);
std::string parameter_suffix(const plan::Plan& plan, int32_t rank);

}  // namespace tombolo::kernels
