// Plays the pipelines of a DP-cell in time, by rules: whoever is free picks the next thing to do,
// and what was picked is the schedule.
//
// At every instant, after all that ends then: each link takes the transfer that its rule prefers
// among those that are ready; each rank takes a computation, late stages before early ones (their
// backwards tell the others what is coming) and low pipelines before high ones. Nothing is
// preempted, and nobody waits for something better except where a rule says so.
//
// Micro-batches of a pipeline are alike, so each stage takes them in their order; with several
// stages on a rank (chunks), the rule also chooses between those.
//
// Varuna, Atlas and the search for the best schedule are rules for this one player.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"

namespace tombolo::schedule {

// Which transfer of a shared link goes first. On a pipeline's own link: in the order of the sends.
enum class LinkRule {
  kFirstCome,    // the one that has been ready longest; the lower pipeline among equals
  kPipeline,     // the lowest pipeline, then the lowest micro-batch
  kMicrobatch,   // the lowest micro-batch, then the lowest pipeline
  kLongestTail,  // the pipeline with the most work ahead of it
};

// What a rank does first where several things are possible.
enum class ComputeRule {
  kBackwardFirst,  // B or I, then F, then W
  kForwardFirst,   // F, then B or I, then W
  kLateStage,      // of what is possible, what lies nearest to the end of the pipeline's path
};

// When a stage that recomputes does so.
enum class RecomputeRule {
  kWithGradient,   // once the gradient is there
  kJustInTime,     // so that it ends no earlier than the gradient arrives, before forwards
  kAfterForwards,  // the same, and only if no forward is possible
};

struct Rules {
  LinkRule link = LinkRule::kFirstCome;
  ComputeRule compute = ComputeRule::kBackwardFirst;
  RecomputeRule recompute = RecomputeRule::kWithGradient;
  bool split_backward = false;  // I and W instead of B
  // Per position: most micro-batches in flight (from F to B or W; a rank with several stages counts
  // each). Empty: any number.
  std::vector<int32_t> in_flight = {};
  // Per position: most W that wait; at that many one goes before anything else. Empty: any number.
  std::vector<int32_t> weights_waiting = {};
  std::vector<SimDuration> release = {};  // per replica; empty: all at once
};

struct Played {
  Schedule schedule;     // complete: communication, links, sums of gradients, updates
  SimDuration makespan;  // first start to last end of computations
};

// Infeasible if rules and limits leave somebody waiting forever (a limit of in_flight below what
// chunks need). The result validates, and evaluate() gives at most this makespan (the same where no
// pipeline is released late). Cost: O(C P M log) tasks, about 150 ns each.
Result<Played> play(const std::string& name, const Shape& shape, const Times& times,
                    const Rules& rules);

// The rules of a published discipline, and of the three ways in which a DP-cell may order itself.
Rules varuna_rules();
Rules atlas_rules(const Shape& shape, const Times& times, plan::Discipline discipline);

// For a schedule whose ranks are ordered already: in which order its shared links serve them, by
// playing it. A schedule without shared boundaries stays as it is.
Schedule order_links(Schedule schedule, const Shape& shape, const Times& times, LinkRule rule);

}  // namespace tombolo::schedule
