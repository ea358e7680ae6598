// Plays the pipelines of a DP-cell in time, by rules: each free rank and link picks the next thing
// to do, and what was picked is the schedule.
//
// At every instant, after all that ends then: each link takes the transfer that its rule prefers
// among those that are ready; each rank takes a computation, late stages before early ones (their
// backwards tell the others what is coming) and low pipelines before high ones. Nothing is
// preempted, and no rank or link waits for something better except where a rule says so.
//
// Microbatches of a pipeline are alike, so each stage takes them in their order; with several
// stages on a rank (chunks), the rule also chooses between those. Where messages for several stages
// come on one way (interleaved), they are taken in the order of their sends. Of what a rank may
// keep in flight, one is left free for each of its later stages, whose backwards free the others.
//
// Varuna, Atlas and the search for the best schedule are rules for this one player.
#pragma once

#include <cstdint>
#include <vector>

#include "spec/schedule/schedule.h"

namespace tombolo::schedule {

// Which transfer of a shared link goes first. On a pipeline's own link: in the order of the sends.
enum class LinkRule {
  kFirstCome,   // the one that has been ready longest; the lower pipeline among equals
  kPipeline,    // the lowest pipeline
  kMicrobatch,  // the lowest microbatch, then the lowest pipeline
};

// What a rank does first where several things are possible; of its stages, the one nearest to the
// end of a microbatch's way.
enum class ComputeRule {
  kBackwardFirst,  // B or I, then F, then W
  kForwardFirst,   // F, then B or I, then W
};

// When W goes where backwards are split: after everything else that is possible.
enum class WeightRule {
  kWhenIdle,   // whenever nothing else is
  kWhenItFits  // only if it ends before the next message that is known to come
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
  WeightRule weights = WeightRule::kWhenIdle;
  bool split_backward = false;  // I and W instead of B
  // Per position: most microbatches in flight (from F to B or W; a rank with several stages counts
  // each). Empty: any number.
  std::vector<int32_t> in_flight = {};
  std::vector<SimDuration> release = {};  // per pipeline of a cell; empty: all at once
  // A rank waits for something preferred that is known to come within this share of what it would
  // do instead. 0: never.
  double patience = 0;
};

struct Played {
  Schedule schedule;     // complete: communication, links, gradient all-reduces, updates
  SimDuration makespan;  // first start to last end of computations
};

// What one cell decides: computations of its ranks (position x cell + pipeline), and the order of
// its shared links. All cells of a shape do the same, unless it has groups: then it has one cell.
struct CellOrders {
  std::vector<RankActions> ranks;
  std::vector<LinkOrder> links;
  std::vector<SimDuration> release;  // per pipeline; empty: all at once
  bool recompute_ahead = false;      // R need not wait for the gradient
};

// A cell as played, without what completes a schedule: for searches that play many and keep one.
struct CellPlay {
  CellOrders orders;
  SimDuration makespan;
  bool finished = false;  // false: the rules left a rank or link waiting forever
};
CellPlay play_cell(const PipelineShape& shape, const Times& times, const Rules& rules);

// Links choose by the rules; computations stay in this order.
CellPlay play_links(const PipelineShape& shape, const Times& times, const Rules& rules,
                    std::vector<RankActions> ranks);

// The schedule of all cells: with communication, links, gradient all-reduces and updates.
Schedule complete(const std::string& name, const PipelineShape& shape, const CellOrders& orders);

// Infeasible if rules and limits leave a rank or link waiting forever (a limit of in_flight below
// what chunks need). The result validates, and evaluate() gives at most this makespan (the same
// where no pipeline is released late). Cost: O(C P M log) tasks, about 150 ns each.
Result<Played> play(const std::string& name, const PipelineShape& shape, const Times& times,
                    const Rules& rules);

// How the pipelines of a DP-cell share a WAN (layout::Discipline):
//   strict    links serve the lower pipeline first; all begin at once
//   released  links serve first come, first served; pipeline c of the cell begins c M w / C after
//             the first, when that one's M transfers, of w / C each, have passed a shared link.
//             Where parts of the cell share: so do the k that share all their crossings, by M w / k;
//             others begin at once
//   greedy    first come, first served; all begin at once
Rules cell_rules(const PipelineShape& shape, const Times& times, layout::Discipline discipline);

// For a schedule whose ranks are ordered already and whose cells are alike (or one): in which order its
// shared links serve them, by playing it, and the rules' releases. A schedule without shared
// boundaries stays as it is.
Schedule order_links(Schedule schedule, const PipelineShape& shape, const Times& times,
                     const Rules& rules);

}  // namespace tombolo::schedule
