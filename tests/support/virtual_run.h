// For tests: all ranks of a Plan with emulated kernels, each in a thread with a clock of its own,
// over a VirtualNetwork. What happens is what the Plan says, to the nanosecond, on any machine.
#pragma once

#include <functional>
#include <future>
#include <vector>

#include "perform/kernels/emulated_kernels.h"
#include "perform/stage/perform.h"
#include "spec/schedule/schedule.h"
#include "support/virtual_network.h"

namespace tombolo::stage {

// One rank's part of the Trace each; every byte is checked. The first failure where one fails.
// `reported` hears of iterations, from the threads of all ranks.
inline Result<std::vector<trace::Trace>> perform_virtually(
    const plan::Plan& plan,
    const std::function<void(int32_t rank, const IterationReport&)>& reported = {}) {
  const schedule::Schedule schedule = TRY(schedule::build(plan));
  kernels::VirtualNetwork network(
      [&](int32_t from, int32_t to) { return kernels::shape_between(plan, from, to); });
  const auto perform_rank = [&](int32_t rank) -> Result<trace::Trace> {
    ManualClock clock;
    kernels::VirtualMessenger messenger(network, rank, clock);
    kernels::EmulatedKernels kernels(plan, rank, clock, {.check_every_byte = true});
    const layout::Placement& own = plan.ranks[rank];
    PerformOptions options{.rank = rank};
    if (!schedule.release.empty()) options.release = schedule.release[own.replica];
    if (!schedule.pairs.empty()) options.pairs = schedule.pairs[static_cast<size_t>(rank)];
    if (plan.replicas() > 1) {
      TRY(kernels.join_replicas({.ranks = plan.replicas_of(own.stage),
                                 .own = static_cast<size_t>(own.replica),
                                 .messenger = &messenger}));
    }
    const Hooks hooks{.iteration = [&](const IterationReport& report) -> Status {
      if (reported) reported(rank, report);
      return {};
    }};
    return perform(plan, schedule.ranks[rank], options, kernels, messenger, clock, hooks);
  };
  const auto live = [&](int32_t rank) {
    auto trace = perform_rank(rank);
    if (!trace) network.close();
    return trace;
  };
  std::vector<std::future<Result<trace::Trace>>> ranks;
  for (const layout::Placement& placement : plan.ranks) {
    ranks.push_back(std::async(std::launch::async, live, placement.rank));
  }
  std::vector<trace::Trace> parts;
  Status first_failure;
  for (auto& rank : ranks) {
    auto trace = rank.get();
    if (!trace && first_failure) first_failure = fail(trace.error());
    if (trace) parts.push_back(std::move(*trace));
  }
  TRY(first_failure);
  return parts;
}

}  // namespace tombolo::stage
