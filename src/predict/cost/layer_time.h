// What one layer, the head and the embedding take on one device, operator by operator: the inner
// half of the law `tombolo` (iteration.h).
//
// All times are of one microbatch. Computation is what kernels take one after the other;
// communication is what collectives take, before anything is hidden. docs/laws/tombolo.md.
#pragma once

#include <cstdint>
#include <optional>

#include "base/units.h"
#include "predict/cost/configuration.h"
#include "predict/cost/constants.h"
#include "spec/cluster/cluster.h"
#include "spec/model/model.h"

namespace tombolo::cost {

// One direction (forward or backward) of one layer. In seconds, as plain numbers: a search adds
// them up by the hundred million.
struct LayerPass {
  double compute = 0;
  double attention = 0;  // of compute: behind which context parallelism hides
  double tensor = 0;     // collectives, not yet overlapped
  double context = 0;
  double expert = 0;

  LayerPass& operator+=(const LayerPass& o) {
    compute += o.compute;
    attention += o.attention;
    tensor += o.tensor;
    context += o.context;
    expert += o.expert;
    return *this;
  }
  LayerPass operator*(double k) const {
    return {compute * k, attention * k, tensor * k, context * k, expert * k};
  }
};

struct LayerTime {
  LayerPass forward;
  LayerPass backward;  // recomputation included
};

// The same layer operator by operator, in seconds of one forward pass; 0 what it does not have.
//
// The backward pass does every matrix product twice, for the gradients of its input and of its
// weights. Collectives are those of one direction: tensor parallelism has four gathers or scatters
// in each, experts two exchanges. Everything else about a layer's time is their sum (layer_of).
struct LayerOperators {
  // With latent attention queries and keys are compressed first; without it `query` is the product
  // that makes queries, keys and values together.
  double query_down = 0, query = 0, key_down = 0, key = 0, projection = 0;
  double attention_passes = 0;  // element-wise, around those
  double attention = 0;         // scores, softmax, and their product with the values
  double attention_backward = 0;

  struct Mlp {
    double up = 0;  // gate included
    double down = 0;
    double passes = 0;  // activation

    double total() const { return up + down + passes; }
  };
  Mlp mlp;  // dense; or that of one expert, of which a device has `experts`
  std::optional<double> experts;
  Mlp shared;  // the expert that every token visits
  double router = 0;
  double permute = 0;        // copies of tokens, both ways
  double norms = 0;          // norms and residuals
  double casts = 0;          // to 8 bits
  double pass_backward = 1;  // backward over forward, of permute, norms and casts

  double gather = 0;    // of tensor parallelism, one of four
  double keys = 0;      // of context parallelism, all that a device fetches
  double exchange = 0;  // of experts, one of two

  double again = 0;        // computed in the backward pass: selective recomputation
  bool all_again = false;  // full recomputation: the forward pass, collectives included

  // Attention's matrices, and all that the backward pass does twice, with what is between them.
  double attention_block() const;
  double matrices() const;
};

LayerTime layer_of(const LayerOperators& operators);

// Rates and sizes that do not depend on the configuration, resolved once.
class LayerPricer {
 public:
  LayerPricer(const model::Model& model, const cluster::Datacenter& datacenter,
              const Constants& constants, double element_bytes, bool fp8);

  LayerOperators operators(const Configuration& c, const GroupPlacement& layout,
                           bool experts) const;
  LayerTime layer(const Configuration& c, const GroupPlacement& layout, bool experts) const {
    return layer_of(operators(c, layout, experts));
  }
  LayerTime head(const Configuration& c, const GroupPlacement& layout) const;
  LayerTime embedding(const Configuration& c) const;

  // Collectives on a grid: `bytes` is what is gathered, reduced or exchanged in all.
  double all_gather(double bytes, const DegreeSplit& grid) const;  // reduce-scatter the same
  double all_reduce(double bytes, const DegreeSplit& grid) const {
    return 2 * all_gather(bytes, grid);
  }
  // Each device sends `bytes` to all others in equal parts.
  double all_to_all(double bytes, const DegreeSplit& grid) const;
  // From one device to one other, across the network where the grid leaves its domain.
  double transfer(double bytes, const DegreeSplit& grid) const;

  // Reading and writing `bytes` bytes of device memory.
  double memory(double bytes) const { return bytes / memory_rate_; }

 private:
  double product(double m, double n, double k, bool eight_bits) const;
  double mean(double full, double linear) const;
  double linear_core(const Configuration& c) const;
  double attention_core(const Configuration& c) const;
  void attention_block(const Configuration& c, LayerOperators& o) const;
  LayerOperators::Mlp mlp_block(double width, double tokens) const;

  const model::Model& m_;
  const DeviceConstants& device_;
  const StackConstants& stack_;
  const FabricConstants &up_, &out_;
  double element_;
  bool fp8_;
  double peak_, rate16_, rate8_, memory_rate_;
  double score_share_;  // of s^2 scores, what layers have in the mean of them: windows
  double up_rate_, out_rate_, up_single_, out_single_;
};

}  // namespace tombolo::cost
