// How short and how cheap an iteration could be at best, before layers are given to stages.
//
// Used to leave out settings, orders and numbers of stages that cannot win. A bound must never be
// above what mixed_partition.h finds; how far below only costs time.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace tombolo::geo {

// By so much of itself a sum may differ that was added up in another order.
inline constexpr double kRounding = 1e-9;

// Stages in one datacenter.
struct StageRoom {
  double layer = 0;                                     // s per layer and microbatch, at best
  int64_t stages = 0;                                   // at most; the exact number if `decided`
  int64_t holds = std::numeric_limits<int64_t>::max();  // layers that a stage has memory for
  double rate = 0;                                      // USD/s of one stage with its replicas
  bool decided = true;  // undecided ones have at least one stage, if they are needed
  bool needed = true;
};

struct PipelineNeeds {
  int64_t layers = 1;
  int64_t microbatches = 1;
  double transfers = 0;   // s, there and back over all boundaries, at least
  double exposed = 0;     // of that, in steady state
  double period_min = 0;  // s: the busiest link
  double end_min = 0;     // s: gradients and optimizer, at least
  double egress = 0;      // USD, at least
  double rate = 0;        // USD/s of all stages, at least
};

// The shortest period at which the stages hold all layers, a whole number each.
double period_bound(std::span<const StageRoom> rooms, const PipelineNeeds& needs);

// round trip + (m - 1) period + end. For each period fast devices take the layers that they can in
// it; the sum is convex and piecewise linear in the period, so its corners are tried.
double time_bound(std::span<const StageRoom> rooms, const PipelineNeeds& needs);

// Every stage is paid for the whole iteration, of which m - 1 periods and one round trip. A period
// is no shorter than a stage is busy with its layers and its share of slow transfers, and layers
// need as many stages as hold them. Of three bounds the greatest: that of the time with as few
// stages as can be; with decided stages paid in full and layers elsewhere as long as they keep a
// stage busy; with all layers so.
double cost_bound(std::span<const StageRoom> rooms, const PipelineNeeds& needs);

}  // namespace tombolo::geo
