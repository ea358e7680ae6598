// Law `rail-only`: how long one training iteration takes, in closed form.
//
// A GPT is split by tensor (t), pipeline (p) and data (d) over scale-up domains joined by a network
// that only connects devices of the same rank in their domains (rails). The critical path is the
// filling of the pipeline, then the work of its last stage, then the sum of the gradients; nothing
// overlaps.
//
//   base   = 72 B l s h^2                                operations of an iteration's matrices
//   M_Attn = base (1/3 + 2/9 s/h)                        QKV, projection, scores and context
//   M_FF   = base 2/3 + base V/(12 h l)                  MLP and logits
//   t(b)   = (M_FF + gamma M_Attn) b / (F B p t),        m = B/(d b) microbatches
//   AG(D, x, y) = (y-1) D/(x y C_S) + (x-1) D/(x C_F)    all-gather of D bytes on x GPUs of a
//                                                        domain and y domains (equation 1)
//   D_t = 2 b h s                                        bytes of a microbatch,
//   D_p = 2 b h s/t                                      of a boundary between stages,
//   D_d = 2 l 12 h^2/(p t)                               of a rank's gradients
//
//   T = m t(b)                                           compute                    (5)
//     + (p-1) t(b)/v                                     bubble, compute            (3)
//     + 2 (p_l-1) D_p/C_S + 2 p_l (p_h-1) D_p/C_F        bubble, communication      (4)
//     + 8 l m AG(D_t, t_h, t_l)/p                        tensor                     (6)
//     + 2 m v D_p/C_*  if p > 1                          pipeline, last stage       (6)
//     + 2 AG(D_d, d_h, d_l)                              synchronisation            (7)
//
// B sequences per iteration, b per microbatch, l layers, h hidden, s tokens, V vocabulary, v
// virtual stages, F peak, C_F and C_S bandwidth of domain and network as the paper writes them; x_h
// is the part of a degree inside a domain, x_l the part in the network (DegreeSplit, configuration.h); C_*
// is C_S if p_l > 1, else C_F.
//
// Source: Wang, Ghobadi, Shakeri, Zhang, Hasani, "How to Build Low-cost Networks for Large Language
// Models (without Sacrificing Performance)?", 2023, equations 1 to 7 and appendices B and C.
// Corrections, each needed for the printed numbers of table 4: only scores and context are computed
// again (2/9 s/h, where "equation 8 of Korthikanti" would be s/3h); gamma slows all of the
// attention block; the pipeline term is absent for p = 1; p_s, p_f of equation 4 are p_l, p_h. The
// paper's text leaves latency open: one per tensor collective, one per transfer between stages, two
// for the sum of the gradients, each of the network where the group leaves its domain, else of the
// domain.
//
// Domain: GPT decoders with an MLP of 4 h at 16 bits, equal stages, selective recomputation,
// sequence parallelism within t, 1F1B or its interleaved form. Optimistic for small models: kernels
// run at peak and memory is free. Cost: about 50 ns, no allocation. docs/laws/rail_only.md.
#pragma once

#include <cstdint>

#include "base/units.h"
#include "predict/cost/configuration.h"
#include "spec/model/model.h"

namespace tombolo::cost {

struct RailOnlyModel {
  int64_t layers = 1;
  int64_t hidden = 1;
  int64_t heads = 1;  // for memory without recomputation
  int64_t sequence = 1;
  int64_t vocabulary = 1;
  double parameters = 0;  // all of them, for memory
};

struct RailOnlyMachine {
  FlopsPerSecond peak;
  double attention_slowdown = 2.5;  // gamma: attention reaches 0.4 of peak
  BytesPerSecond domain_bandwidth;
  BytesPerSecond network_bandwidth;
  Seconds domain_latency;
  Seconds network_latency;
};

struct RailOnlySplit {
  DegreeSplit tensor;
  DegreeSplit pipeline;
  DegreeSplit data;
  int64_t virtual_stages = 1;
  int64_t micro_batch = 1;
  int64_t global_batch = 1;

  int64_t devices() const { return tensor.degree() * pipeline.degree() * data.degree(); }
};

struct RailOnlyTime {
  Seconds compute;
  Seconds bubble_compute;
  Seconds bubble_communication;
  Seconds tensor_communication;
  Seconds pipeline_communication;
  Seconds synchronization;

  Seconds total() const {
    return compute + bubble_compute + bubble_communication + tensor_communication +
           pipeline_communication + synchronization;
  }
};
RailOnlyTime rail_only(const RailOnlyModel& model, const RailOnlyMachine& machine,
                       const RailOnlySplit& split);

// Operations of an iteration: `model` without recomputation, base (1 + s/(6 h) + V/(12 h l)),
// `hardware` with the scores computed again, base (1 + 2/9 s/h + V/(12 h l)). Over T F p t d they
// are the utilisations MFU and HFU.
struct RailOnlyFlops {
  Flops model;
  Flops hardware;
};
RailOnlyFlops rail_only_flops(const RailOnlyModel& model, int64_t global_batch);

// Memory of a device of the first stage, which keeps most activations. `state_bytes` per parameter
// in all: 2 for the weight, 2 for its gradient, the rest for the optimizer.
//
//   state       = state_bytes parameters/(p t)
//   activations = k s b h l/t (1 + (p-1)/(p v) if v > 1)
//   k = 34 (selective), 34 + 5 a s/h (none), 2 (full; a 16-bit input per layer)
//
// Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
// 2022, equations 2, 4 and 6 and section 4.2.3, with sequence parallelism. p microbatches are in
// flight, however few there are; embedding and head count as if spread over the stages.
struct RailOnlyMemory {
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer;
  Bytes activations;

  Bytes total() const { return parameters + gradients + optimizer + activations; }
};
RailOnlyMemory rail_only_memory(const RailOnlyModel& model, const RailOnlySplit& split,
                                double state_bytes = 16,
                                model::Recompute recompute = model::Recompute::kSelective);

}  // namespace tombolo::cost
