// The work of one chunk of layers for one microbatch, cut into parts that can be drawn as a Graph:
// what a device computes, for how long, and what it exchanges around it.
//
// Times are those of the law `tombolo` (cost/iteration.h), host floor included; FLOPs those of
// model::forward_flops; bytes those of docs/laws/traffic.md. The sums over a stage are exactly what
// estimate and traffic count, however it is cut.
//
// Where the law prices a layer as a whole it is cut in two: attention gets the scores, and each
// half one half of the rest.
#pragma once

#include <string>
#include <vector>

#include "predict/cost/iteration.h"
#include "spec/plan/job.h"

namespace tombolo::workload {

// One piece of computation with the collectives before and after it. Bytes: `gather` and `scatter`
// are complete at the end of an all-gather or at the start of a reduce-scatter; `tokens` are what a
// device hands to its expert group, once before and once after.
struct Pass {
  double seconds = 0;
  double flops = 0;
  double gather = 0, scatter = 0;                  // tensor parallelism
  double context_gather = 0, context_scatter = 0;  // keys and values
  double tokens = 0;

  Pass& operator+=(const Pass& o);
};

struct LayerBlock {
  std::string name;  // "layer 3 attention"
  Pass forward;
  Pass again;           // the forward pass before the backward pass: full recomputation
  Pass backward_input;  // with scores done again: selective recomputation
  Pass backward_weight;
  double touched = 0;  // bytes: its weights, its input and its output
};

// What gathers its parameters and sums its gradients as one.
struct Part {
  std::string name;  // "layer 3"
  std::vector<LayerBlock> blocks;
  double dense = 0;    // parameters on a device
  double experts = 0;  // of experts that are split
};

enum class Granularity { kLayer, kStage };

// `law` and `configuration` as estimate() has them. Cost: O(layers).
std::vector<Part> parts_of(const plan::Job& job, const model::Slice& chunk,
                           const cost::IterationLaw& law, const cost::Configuration& configuration,
                           Granularity granularity);

}  // namespace tombolo::workload
