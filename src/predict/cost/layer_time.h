// What one layer, the head and the embedding take on one device, operator by operator: the inner
// half of the law `tombolo` (iteration.h).
//
// All times are of one micro-batch. Computation is what kernels take one after the other;
// communication is what collectives take, before anything is hidden. docs/laws/tombolo.md.
#pragma once

#include <cstdint>

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

// Rates and sizes that do not depend on the configuration, resolved once.
class LayerPricer {
 public:
  LayerPricer(const model::Model& model, const cluster::Datacenter& datacenter,
              const Constants& constants, double element_bytes, bool fp8);

  LayerTime layer(const Configuration& c, const Layout& layout, bool experts) const;
  LayerTime head(const Configuration& c, const Layout& layout) const;
  LayerTime embedding(const Configuration& c) const;

  // Collectives on a grid: `bytes` is what is gathered, reduced or exchanged in all.
  double all_gather(double bytes, const Grid& grid) const;  // reduce-scatter the same
  double all_reduce(double bytes, const Grid& grid) const { return 2 * all_gather(bytes, grid); }
  // Each device sends `bytes` to all others in equal parts.
  double all_to_all(double bytes, const Grid& grid) const;
  // From one device to one other, across the network where the grid leaves its domain.
  double transfer(double bytes, const Grid& grid) const;

  // Reading and writing so many bytes of device memory.
  double memory(double bytes) const { return bytes / memory_rate_; }

 private:
  double product(double m, double n, double k, bool eight_bits) const;
  double attention_core(const Configuration& c) const;
  LayerPass attention_block(const Configuration& c) const;
  LayerPass mlp_block(double width, double tokens) const;

  const model::Model& m_;
  const DeviceConstants& device_;
  const StackConstants& stack_;
  const FabricConstants &up_, &out_;
  double element_;
  bool fp8_;
  double peak_, rate16_, rate8_, memory_rate_;
  double up_rate_, out_rate_, up_single_, out_single_;
};

}  // namespace tombolo::cost
