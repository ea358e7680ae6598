// DLRM's iteration as a graph: a recommendation model whose embedding tables are spread over all
// NPUs while its layers (MLPs) are copied on each.
//
// Forward: each NPU looks up, in its own tables, what all samples of all NPUs ask for, and an
// all-to-all hands every sample's vectors to the NPU that has the sample; meanwhile the bottom MLP
// works on dense features. The top MLP needs both. Backward: the top MLP, the all-to-all of the
// vectors' gradients, the bottom MLP. Each layer's gradients are summed by an all-reduce as soon as
// they are there, concurrently with computation; each layer's update waits for its own. All NPUs do
// the same, so one graph stands for all.
//
// The paper (Won et al. 2023, table II) says of it: 57 M parameters of MLPs, all NPUs model- and
// data-parallel. Batch, vectors per sample and layers are not said there; the defaults are a batch
// and vectors of common size, and equal layers. Reference: Naumov et al. 2019, arXiv:1906.00091.
// Computation: 2 operations per parameter and sample forward, twice as many backward; lookups are
// memory accesses that this leaves out.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/units.h"
#include "spec/graph/graph.h"

namespace tombolo::workload {

struct Dlrm {
  int64_t mlp_parameters = 57'000'000;
  int64_t bottom_layers = 4, top_layers = 4;  // as large as each other
  int64_t batch = 128;                        // samples per NPU
  int64_t vectors = 64;                       // looked up per sample
  int64_t dimension = 64;                     // elements of a vector
  int64_t element_bytes = 2;
  FlopsPerSecond compute = 234_TFLOPS;  // of an NPU; section IV of the paper
};

// Unusable: sizes below 1.
Result<graph::Graph> dlrm_graph(const Dlrm& dlrm);

}  // namespace tombolo::workload
