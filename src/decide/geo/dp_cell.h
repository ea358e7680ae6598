// How long the pipelines of a DP-cell take that share the WAN in time.
//
// A DP-cell is a group of pipelines laid out alike over the same datacenters. At each boundary
// between two datacenters one microbatch of the cell at a time owns the bandwidth of all its nodes
// (Atlas' temporal bandwidth sharing: scatter inside the datacenter, parallel WAN, gather), in
// either direction. Inside a datacenter transfers are free.
//
// Two laws, by schedule:
//   1f1b-cell   1F1B played action by action on every pipeline of the cell. A boundary serves
//               microbatches in the order in which they are ready, the lower pipeline first where
//               two are ready at once. One datacenter with equal stages: (M + P - 1)(f + b).
//   gpipe-cell  GPipe in closed form, pipelines released one after the other:
//               T = [sum f + sum (w + l) + (M - 1) max(f, w)] + [the same with b]
//                   + (C - 1) M max(f, w),  all w and the last term only across datacenters
// f and b are a stage's passes, w the time that a transfer owns a boundary, l the latency after it,
// inside a max the longest. Durations are rounded to nanoseconds before 1F1B is played.
//
// Source: Palak et al. 2024, Atlas, sections 4.3 and 4.5, which leave get_latency_pp open; the
// discipline is ours, and it meets the scaling of figure 11. docs/laws/datacenter_selection.md.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"

namespace tombolo::geo {

// Equal neighbouring stages in one datacenter.
struct CellPart {
  int64_t stages = 1;
  Seconds forward;
  Seconds backward;  // with recomputation
  bool operator==(const CellPart&) const = default;
};

// The WAN between two parts, as one microbatch meets it.
struct CellLink {
  Seconds occupancy;  // until the next one may follow
  Seconds latency;    // after its last byte has left
  bool operator==(const CellLink&) const = default;
};

// links[i] joins parts[i] and parts[i + 1].
struct DpCell {
  std::vector<CellPart> parts;
  std::vector<CellLink> links;
  int64_t pipelines = 1;
  int64_t microbatches = 1;  // of each pipeline

  int64_t stages() const;
};

Seconds gpipe_cell(const DpCell& cell);

// Cost: 2 C P M passes of some 60 ns each; nothing to speak of in one datacenter.
Seconds one_forward_one_backward_cell(const DpCell& cell);

// No schedule that runs every microbatch forward and backward through all stages is faster.
Seconds cell_at_least(const DpCell& cell);

}  // namespace tombolo::geo
