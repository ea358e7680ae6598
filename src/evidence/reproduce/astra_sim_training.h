// Table II's transformers on systems of several dimensions, an iteration each, end to end.
//
// The job is `tombolo astra --job`'s: tensor parallelism innermost, hierarchical groups, computing at
// the paper's 234 TFLOPS. What the paper leaves open: GPT-3 is Megatron-LM's; Transformer-1T is its
// model of 10^12 parameters with 128 heads, because 160 do not divide among 128 NPUs; nothing is
// recomputed; links have no latency; every dimension is a switch with a ring over it, so that an NPU
// sends no more than its bandwidth. Collectives are in 64 chunks, as table III's.
//
// Source: Won et al. 2023, ASTRA-sim2.0, tables I to III and section IV-A; 234 TFLOPS: section IV.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "predict/network/chunked_all_reduce.h"

namespace tombolo::reproduce {

struct Transformer {
  const char* name;
  const char* model;  // [model] of its job
  int64_t tensor;     // "MP size"
  int64_t sequences;  // of a replica and iteration
  double sums;        // all-reduces of tensor parallelism in an iteration: four a layer
  double hidden;
};

// Sequences: the paper speaks of collectives of 100 MB to 1 GB, and these sum 805 and 839 MB. From 2
// and 4 sequences on all but the last gradients hide, and quotients change by 2.5 % at most.
inline constexpr Transformer kGpt3{"GPT-3", "preset = \"gpt3-175b\"\n", 16, 16, 384, 12288};
inline constexpr Transformer kTransformer1T{
    "Transformer-1T", "preset = \"gpt-1t\"\nheads = 128\n", 128, 8, 512, 25600};

// NPUs and GiB/s of each dimension, because the paper's GB/s are 2^30 bytes per second.
struct TrainingSystem {
  const char* name;
  std::vector<int32_t> npus;
  std::vector<double> bandwidth;
};

struct TrainingTime {
  Seconds iteration;
  Seconds exposed;  // communication that no computing hides
};

TrainingTime train(const Transformer& transformer, const TrainingSystem& system,
                   network::DimensionScheduling order = network::DimensionScheduling::kBaseline);

// Table I with its last dimension made longer until there are the 1,024 NPUs of table II, as table
// III does it: W-1D of 350, 500, 600 GB/s, W-2D, Conv-3D, Conv-4D.
std::vector<TrainingSystem> systems_of_table_1();

}  // namespace tombolo::reproduce
