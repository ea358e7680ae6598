// The constants of the law `tombolo`: what no datasheet says, at three levels.
//
//   device    how much of its peak a kernel of a given size reaches
//   fabric    how much of its nominal rate a collective reaches, and its latency
//   stack     which kernels a training framework launches, what it hides behind computation, what
//             it keeps in memory, and how long the host takes to launch it all
//
// Each is one named file, src/predict/cost/constants/LEVEL/NAME.toml, embedded in the program; a
// file says from which published rows it was fitted. No constant belongs to one model or one row.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/units.h"
#include "spec/cluster/cluster.h"

namespace tombolo::cost {

// A matrix product (m x k)(k x n) takes
//   2 m n k (1 + half_rows/m) (1 + half_columns/n) (1 + half_depth/k) / (efficiency peak),
// or the time to move its operands, whichever is longer, and at least `kernel`.
struct DeviceConstants {
  std::string name;
  std::vector<std::string> devices;  // of the catalog, for which they hold
  std::string kind;                  // the file whose published runs bound its utilisation, too
  double matmul_efficiency = 0.7;    // of peak, in products large in every dimension
  double fp8_efficiency = 0.6;       // of the peak at 8 bits
  double half_rows = 100;            // m at which half the efficiency is lost: tokens
  double half_columns = 100;         // n
  double half_depth = 100;           // k
  double flash_efficiency = 0.5;     // of peak at 16 bits, in fused attention
  double flash_half_sequence = 500;  // tokens at which half of it is lost
  double flash_half_head = 16;       // numbers per head at which half of it is lost
  double scores_efficiency = 0.4;    // of peak, in the two batched products of unfused attention
  double unaligned_head = 1.5;       // slow-down of those for heads not a multiple of 8 wide
  double unaligned_product = 1.2;    // slow-down of matrices not a multiple of 64 (128 bytes) wide
  double memory_efficiency = 0.8;    // of nominal bandwidth, in element-wise kernels
  Seconds kernel{3e-6};              // the shortest kernel

  bool operator==(const DeviceConstants&) const = default;
};

// A collective that moves D bytes through each of n devices takes
//   startup + steps x latency + D / (efficiency x nominal rate).
struct FabricConstants {
  std::string name;
  bool network = false;              // joins domains; else inside one
  std::vector<std::string> devices;  // constants of devices whose fabric it is where none is named
  double efficiency = 0.8;           // of the nominal rate, in collectives with large messages
  double single_efficiency = 0.6;    // of the nominal rate, from one device to one other
  Seconds startup{20e-6};            // of a collective: kernel launch, synchronisation
  Seconds latency{2e-6};             // of a step

  bool operator==(const FabricConstants&) const = default;
};

enum class Attention { kUnfused, kFlash };
constexpr auto enum_names(Attention) {
  return std::to_array<EnumName<Attention>>(
      {{Attention::kUnfused, "unfused"}, {Attention::kFlash, "flash"}});
}

// What selective recomputation computes again.
enum class SelectiveRecompute {
  kAttention,  // scores, softmax and dropout (Korthikanti et al. 2022, section 5); nothing if fused
  kOperators   // all but attention and every second matrix product (torchtitan)
};
constexpr auto enum_names(SelectiveRecompute) {
  return std::to_array<EnumName<SelectiveRecompute>>(
      {{SelectiveRecompute::kAttention, "attention"},
       {SelectiveRecompute::kOperators, "operators"}});
}

struct StackConstants {
  std::string name;    // of a release, as jobs say it: the same one on every device
  std::string family;  // releases of one lineage, whose published runs speak for each other
  // Kernels.
  Attention attention = Attention::kFlash;
  double causal_share = 0.5;          // of the scores that fused attention computes
  double context_causal_share = 0.5;  // the same of the slowest rank under context parallelism
  double flash_speed = 1;             // of its fused attention, over that of the device's constants
  double score_bytes = 12;            // moved per score in a forward pass of unfused attention
  double layer_passes = 20;         // bytes of hidden x tokens x element moved by norms, residuals
  double mlp_passes = 4;            // the same per element of the MLP's inner width
  double expert_passes = 6;         // the same per copy of a token that goes to an expert
  double fp8_passes = 4;            // bytes per hidden x token for casts to 8 bits
  double backward_passes = 1.5;     // backward passes over forward ones
  double accumulate_bytes = 0;      // per parameter and microbatch, where gradients are added up
                                    // in kernels of their own
  double logit_bytes = 16;          // moved per logit, forward and backward
  Seconds host_layer{1e-3};         // the host's time to launch a layer forward
  double host_backward = 1.5;       // backward over forward
  Seconds host_experts{0};          // added for a layer with experts: routing waits for the host
  Seconds host_collective{20e-6};   // added per collective of tensor parallelism
  Seconds host_micro_batch{1e-3};   // added per microbatch, stage and pass
  Seconds host_iteration{10e-3};    // optimizer, logging, data
  Seconds host_optimizer_layer{0};  // of the optimizer, per layer
  // Overlap: the share of computation behind which communication hides.
  double tensor_overlap = 0;
  double gradient_overlap = 0;
  double parameter_overlap = 0;  // gathers of ZeRO 3
  double pipeline_overlap = 0;
  double expert_overlap = 0;
  double context_overlap = 1;     // of attention: 1 in a ring, 0 where keys are gathered before it
  double interference = 0.0;      // hidden communication slows computation by this share of itself
  bool scatter_pipeline = true;   // a stage sends 1/t of a boundary per device
  double gradient_bytes = 2;      // per parameter, as the time of their sum says: for times alone,
                                  // plan::gradient_bytes is what is sent
  double optimizer_passes = 1.5;  // bytes of state moved per byte of state, per iteration
  double spread = 0;              // slow-down per doubling of nodes: stragglers, congestion
  // Memory.
  double parameter_memory = 2;  // bytes per parameter: weights
  double gradient_memory = 4;   // with copies that the gradient reduction needs
  double bf16_gradients = 0;    // more of them where weights are bf16: copies in float32
  double optimizer_memory = 12;
  bool dropout = false;          // keeps a byte per element for each mask
  bool gathered_inputs = false;  // of tensor-parallel matrices are kept, not gathered again
  SelectiveRecompute selective = SelectiveRecompute::kAttention;
  double activation_scale = 1;  // over the formula's bytes: copies, allocator
  bool stage_outputs = false;   // kept until their backward pass (DeepSpeed), not freed once sent
  double logit_memory = 6;      // per logit: in 16 bits and in float32
  double layer_buffers = 0;     // per parameter of one layer: stand-ins that libraries keep
  // 0: the peak of bytes allocated. 1: of bytes reserved, where the allocator keeps room for logits
  // and for a layer's buffers side by side.
  double reserved = 0;
  Bytes workspace{1e9};  // context, collectives' buffers, libraries

  bool operator==(const StackConstants&) const = default;
};

template <class Archive>
void describe(Archive& a, DeviceConstants& d) {
  a.required("name", d.name);
  a.optional("devices", d.devices);
  a.optional("kind", d.kind);
  a.optional("matmul_efficiency", d.matmul_efficiency);
  a.optional("fp8_efficiency", d.fp8_efficiency);
  a.optional("half_rows", d.half_rows);
  a.optional("half_columns", d.half_columns);
  a.optional("half_depth", d.half_depth);
  a.optional("flash_efficiency", d.flash_efficiency);
  a.optional("flash_half_sequence", d.flash_half_sequence);
  a.optional("flash_half_head", d.flash_half_head);
  a.optional("scores_efficiency", d.scores_efficiency);
  a.optional("unaligned_head", d.unaligned_head);
  a.optional("unaligned_product", d.unaligned_product);
  a.optional("memory_efficiency", d.memory_efficiency);
  a.optional("kernel", d.kernel);
}

template <class Archive>
void describe(Archive& a, FabricConstants& f) {
  a.required("name", f.name);
  a.optional("network", f.network);
  a.optional("devices", f.devices);
  a.optional("efficiency", f.efficiency);
  a.optional("single_efficiency", f.single_efficiency);
  a.optional("startup", f.startup);
  a.optional("latency", f.latency);
}

template <class Archive>
void describe(Archive& a, StackConstants& s) {
  a.required("name", s.name);
  a.required("family", s.family);
  a.optional("attention", s.attention);
  a.optional("causal_share", s.causal_share);
  a.optional("context_causal_share", s.context_causal_share);
  a.optional("flash_speed", s.flash_speed);
  a.optional("score_bytes", s.score_bytes);
  a.optional("layer_passes", s.layer_passes);
  a.optional("mlp_passes", s.mlp_passes);
  a.optional("expert_passes", s.expert_passes);
  a.optional("fp8_passes", s.fp8_passes);
  a.optional("backward_passes", s.backward_passes);
  a.optional("accumulate_bytes", s.accumulate_bytes);
  a.optional("logit_bytes", s.logit_bytes);
  a.optional("host_layer", s.host_layer);
  a.optional("host_backward", s.host_backward);
  a.optional("host_experts", s.host_experts);
  a.optional("host_collective", s.host_collective);
  a.optional("host_micro_batch", s.host_micro_batch);
  a.optional("host_iteration", s.host_iteration);
  a.optional("host_optimizer_layer", s.host_optimizer_layer);
  a.optional("tensor_overlap", s.tensor_overlap);
  a.optional("gradient_overlap", s.gradient_overlap);
  a.optional("parameter_overlap", s.parameter_overlap);
  a.optional("pipeline_overlap", s.pipeline_overlap);
  a.optional("expert_overlap", s.expert_overlap);
  a.optional("context_overlap", s.context_overlap);
  a.optional("interference", s.interference);
  a.optional("scatter_pipeline", s.scatter_pipeline);
  a.optional("gradient_bytes", s.gradient_bytes);
  a.optional("optimizer_passes", s.optimizer_passes);
  a.optional("spread", s.spread);
  a.optional("parameter_memory", s.parameter_memory);
  a.optional("gradient_memory", s.gradient_memory);
  a.optional("bf16_gradients", s.bf16_gradients);
  a.optional("optimizer_memory", s.optimizer_memory);
  a.optional("dropout", s.dropout);
  a.optional("gathered_inputs", s.gathered_inputs);
  a.optional("selective", s.selective);
  a.optional("activation_scale", s.activation_scale);
  a.optional("stage_outputs", s.stage_outputs);
  a.optional("logit_memory", s.logit_memory);
  a.optional("layer_buffers", s.layer_buffers);
  a.optional("reserved", s.reserved);
  a.optional("workspace", s.workspace);
}

// By name, or what is nearest: a device that no file names takes the constants of the device that
// is nearest in peak and memory bandwidth, a CPU those of a roofline, and `assumed` says so.
struct Constants {
  DeviceConstants device;
  FabricConstants scale_up;
  FabricConstants scale_out;
  StackConstants stack;
  std::vector<std::string> assumed;  // one sentence each
};

// The constants for a datacenter's device and fabrics and a stack. Unusable: an unknown stack, or a
// fabric named in the cluster that has no file.
Result<Constants> find_constants(const cluster::Datacenter& datacenter, std::string_view stack);

// Whether files speak for a device: for accelerators, emulated ones too, those that no file names
// as the nearest does; not for CPUs, whose operators take what a roofline says
// (docs/laws/roofline.md).
bool has_constants(const cluster::Device& device);

// Of all constant files: equal digests, equal prices. Stands in every Plan that they priced.
std::string constants_digest();

// All files, for the calibration and for tests.
struct ConstantFiles {
  std::vector<DeviceConstants> devices;
  std::vector<FabricConstants> fabrics;
  std::vector<StackConstants> stacks;
};
const ConstantFiles& constant_files();

// The names of all files in constants/, as in "device-a100.toml"; the part before the first '-' is
// the level. And the text of one, embedded when the program is built.
std::vector<std::string_view> constant_text_names();
std::string_view constant_text(std::string_view name);

}  // namespace tombolo::cost
