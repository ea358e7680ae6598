// Rules for the player, varied until nothing helps.
//
// Knobs are what a person would turn: how deep stages warm up, which kind of work goes first, when
// to recompute, how the pipelines of a cell are released, which transfer goes first, whether and
// how backwards are split. A grid over the strongest ones comes first, then the best settings are
// changed one knob at a time, and at last the depth of groups of positions.
//
// How deep: by Little's law a stage keeps as many microbatches in flight as its round trip to the
// end of the pipeline and back takes, at one microbatch per turn of the slowest resource. Fewer
// leave it waiting for gradients; more only hold memory, and let forwards get in the way.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "spec/schedule/player.h"

namespace tombolo::schedule_search::detail {

struct Knobs {
  // Depth in round trips of Little's law; kAllMemory, or kOneForwardOneBackward's P - s.
  double depth = 1;
  std::vector<double> depth_of_group = {};  // factors, by group of positions; empty: 1
  schedule::ComputeRule compute = schedule::ComputeRule::kBackwardFirst;
  schedule::WeightRule weights = schedule::WeightRule::kWhenIdle;
  schedule::RecomputeRule recompute = schedule::RecomputeRule::kJustInTime;
  schedule::LinkRule link = schedule::LinkRule::kFirstCome;
  bool split_backward = false;
  double release = 0;  // between pipelines of a cell: in passes of all microbatches over the WAN
  double patience = 0;

  bool operator==(const Knobs&) const = default;
};
inline constexpr double kAllMemory = 1e9;
inline constexpr double kOneForwardOneBackward = -1;

// What depends on the shape only, computed once.
class KnobSpace {
 public:
  KnobSpace(const schedule::PipelineShape& shape, const schedule::Times& times,
            const schedule::Memory& memory);

  schedule::Rules rules(const Knobs& knobs) const;
  std::string text(const Knobs& knobs) const;  // "backward first, 1.25 round trips deep, ..."

  // The settings to begin with, backwards split or whole, and those one turn away from a given one.
  std::vector<Knobs> grid(bool split_backward) const;
  std::vector<Knobs> neighbours(const Knobs& knobs) const;

 private:
  size_t group_of(int32_t position) const;

  const schedule::PipelineShape& shape_;
  const schedule::Memory& memory_;
  SimDuration slowest_transfer_;  // of shared boundaries
  std::vector<double>
      round_trips_;  // per position: in turns of the slowest resource, of its stages
  std::vector<double> steps_to_end_;
  size_t groups_ = 1;
};

struct Trial {
  Knobs knobs;
  schedule::CellPlay play;
};

// The best settings, best first, at most `keep`; the first of equals in the order of the search.
// Stops at a play that takes no longer than `enough`. Does not depend on the number of threads.
struct RuleSearchOptions {
  bool split_backward = true;
  int threads = 1;
  int64_t plays_max = 400;
  SimDuration enough;
  size_t keep = 4;
};
std::vector<Trial> search_rules(const schedule::PipelineShape& shape, const schedule::Times& times,
                                const schedule::Memory& memory, const RuleSearchOptions& options);

}  // namespace tombolo::schedule_search::detail
