// Law `prefill`: how long the prefill of one prompt takes, layer by layer, on one device or spread
// over a pipeline of them.
//
//   layer(n)    = max(forward pass of a layer over n tokens, the host's time to launch it)
//   ends(n)     = embedding of n tokens + head for the last one
//   transfer(n) = n hidden numbers to the next shard
//   TTFT(n, d)  = layers layer(n) + ends(n) + (d - 1) transfer(n)
//
// The forward pass is that of the law `tombolo` at inference: one sequence of n tokens, attention
// over the prompt (quadratic in n), no gradients, no dropout, nothing kept but keys and values. On a
// CPU it is that of the law `roofline`. One prompt gains nothing from a deeper pipeline, as its
// layers run one after the other; each hop costs a transfer.
//
// Domain: one prompt at a time, 16-bit weights that lie in the device's memory. Of a mixture of
// experts the slower kind of layer counts for all. docs/laws/prefill_time.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "spec/cluster/cluster.h"
#include "spec/model/model.h"

namespace tombolo::cost {

struct PrefillTime {
  int64_t tokens = 0;
  Seconds layer;
  Seconds ends;
  Seconds transfer;

  Seconds ttft(int64_t layers, int64_t depth) const {
    return layer * static_cast<double>(layers) + ends + transfer * static_cast<double>(depth - 1);
  }
};

// How activations get from a shard to the next.
enum class ShardHop {
  kScaleUp,   // GPUs of one node
  kScaleOut,  // of one datacenter
};

// For prompts of 1 token to model.sequence of them: every power of two and three steps between, so
// that straight lines between rows are at most 2 % too long. Rows ascend.
// Unusable: a fabric without constants; a prompt longer than model.sequence.
Result<std::vector<PrefillTime>> prefill_times(const model::Model& model,
                                               const cluster::Datacenter& datacenter, ShardHop hop);
Result<PrefillTime> prefill_time(const model::Model& model, const cluster::Datacenter& datacenter,
                                 ShardHop hop, int64_t tokens);

// Storing a model that is not in use elsewhere, and loading it when its turn comes: bytes over the
// rate of the bus. BubbleTea (Palak et al. 2024, section 5.1) discards this for 60 GB over PCIe.
Seconds loading_time(Bytes weights, BytesPerSecond bus);

}  // namespace tombolo::cost
