// When datacenters that train on their own (local steps, DiLoCo: Douillard et al. 2023) exchange how
// their parameters have changed, and with which messages. The simulator and the runtime both obey it.
//
//   every step       Gradients are summed inside a datacenter alone (sum_inside), and its parameters
//                    are updated with them: the inner step.
//   every H steps    of a group of parameters, after the inner step of iteration n, where n + offset
//                    is a multiple of H: an outer step begins. Each datacenter sends what its
//                    parameters have changed by since the last one, as one update, as in
//                    sparse_exchange.h.
//   `delay` later    after the inner step of iteration n + delay: the outer step ends. A replica
//                    that does not have all updates by then waits for them, so that the result of a
//                    run does not depend on when they come.
//
// With P fragments the groups of a stage are cut, in their order, into P parts of about equal bytes,
// and one of them begins every H/P steps (Streaming DiLoCo: Douillard et al. 2025): the link carries a
// P-th at a time, and several may be on their way. A part without a group begins nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "spec/schedule/gradient_exchange.h"

namespace tombolo::schedule {

struct OuterSteps {
  int64_t every = 1;
  int64_t offset = 0;  // from 0 to below `every`
  int64_t delay = 0;   // below `every`

  bool begins(int64_t iteration) const { return (iteration + offset) % every == 0; }
  // The iteration in which the outer step that ends in this one began.
  std::optional<int64_t> ends(int64_t iteration) const {
    const int64_t begun = iteration - delay;
    return begun >= 1 && begins(begun) ? std::optional(begun) : std::nullopt;
  }
  // The same of one that began before this iteration and has not ended.
  std::optional<int64_t> under_way(int64_t iteration) const;
  // Which of a group's outer steps this one is, from 1.
  int64_t number(int64_t begun) const { return (begun + offset) / every; }
};

// Of a group of a stage, where the Plan's [exchange] has local steps.
OuterSteps outer_steps(const plan::Plan& plan, int32_t stage, int32_t group);

// The period, in iterations, of the repeating pattern of lengths: H, without local steps 1.
int64_t cycle_of(const plan::Plan& plan);

// The fragment of each group, by the groups' bytes: the one that the group's middle lies in.
std::vector<int32_t> fragments_of(std::span<const double> bytes, int64_t fragments);

// The update of each datacenter to all replicas, from the replica that leads for the group.
GradientExchange outer_exchange(std::span<const int32_t> datacenters, int64_t elements,
                                int32_t group);
GradientExchange outer_exchange(const plan::Plan& plan, int32_t stage, int64_t elements,
                                int32_t group);

// Datacenters with replicas, and the rate of an outer step where the job gives none: of sparse
// updates 1; else 0.4, 0.6, 0.6, 0.8 for 1, 2, 4, 8 datacenters, and for numbers between the one
// below (Charles et al., DiLoCo scaling laws, 2025, section 4).
int32_t datacenters_with_replicas(const plan::Plan& plan);
double outer_rate(const plan::Plan& plan);

// Gradients are shares of the mean over all samples. Those of a datacenter, summed, times this are the
// mean over its own.
double inner_factor(const plan::Plan& plan, int32_t replica);

}  // namespace tombolo::schedule
