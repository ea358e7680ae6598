#include "predict/cost/device_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace tombolo::cost {
namespace {

using model::Model;
using model::Recompute;

constexpr double kGib = 1024.0 * 1024 * 1024;

// Small enough to count by hand: a layer has 8 x 16 + 8 x 8 parameters in attention, 3 x 8 x 16 in
// its MLP and 16 in norms, 592 in all; embedding and head have 256 and 264 more, so 2,888.
Model tiny() {
  Model m;
  m.layers = 4;
  m.hidden = 8;
  m.heads = 2;
  m.kv_heads = 1;
  m.ffn = 16;
  m.vocabulary = 32;
  m.sequence = 10;
  return m;
}

StackConstants bare_stack() {
  StackConstants stack;
  stack.workspace = Bytes{0};
  return stack;
}

double activations(const Model& m, const Configuration& c, int64_t stage = 0,
                   const StackConstants& stack = bare_stack()) {
  return stage_memory(m, c, stack, {}, stage).activations.value;
}

TEST(DeviceMemory, state_is_counted_and_divided_by_zero) {
  Configuration c{{.data = 4}, 1, 4};
  const auto bytes = [&](int64_t zero) {
    c.zero = zero;
    const DeviceMemory memory = device_memory(tiny(), c, bare_stack(), {});
    return std::array{memory.parameters.value, memory.gradients.value, memory.optimizer.value};
  };
  EXPECT_EQ(bytes(0), (std::array{2 * 2888.0, 4 * 2888.0, 12 * 2888.0}));
  EXPECT_EQ(bytes(1), (std::array{2 * 2888.0, 4 * 2888.0, 3 * 2888.0}));
  EXPECT_EQ(bytes(2), (std::array{2 * 2888.0, 2888.0, 3 * 2888.0}));
  EXPECT_EQ(bytes(3), (std::array{2888.0 / 2, 2888.0, 3 * 2888.0}));
}

// Two stages of 1,440 and 1,448 parameters: with one microbatch a device keeps a quarter, with more
// all, 4 bytes each.
TEST(DeviceMemory, gradients_of_microbatches_add_up_whole_in_a_pipeline) {
  const auto gradients = [](int64_t zero, int64_t microbatches, int64_t pipeline, int64_t stage) {
    const Configuration c{{.data = 4, .pipeline = pipeline, .zero = zero}, 1, 4 * microbatches};
    return stage_memory(tiny(), c, bare_stack(), {}, stage).gradients.value;
  };
  EXPECT_EQ(gradients(2, 4, 2, 0), 4 * 1440);
  EXPECT_EQ(gradients(2, 4, 2, 1), 4 * 1448);
  EXPECT_EQ(gradients(1, 4, 2, 0), 4 * 1440);
  EXPECT_EQ(gradients(2, 1, 2, 0), 1440);
  EXPECT_EQ(gradients(2, 4, 1, 0), 2888);
  // Two chunks of a stage: one of them is whole at a time, and the other in shards.
  const Configuration chunks{{.data = 4, .pipeline = 2, .virtual_stages = 2, .zero = 2}, 1, 16};
  EXPECT_EQ(stage_memory(tiny(), chunks, bare_stack(), {}, 0).gradients.value,
            (4 * 1440 + 1440) / 2);
}

// One replica has nothing to gather.
TEST(DeviceMemory, a_single_replica_gathers_nothing) {
  const auto memory = [](int64_t zero) {
    const Configuration c{{.zero = zero}, 1, 1};
    return device_memory(tiny(), c, bare_stack(), {}).total();
  };
  EXPECT_EQ(memory(3), memory(0));
}

TEST(DeviceMemory, a_job_that_states_other_bytes_changes_the_optimizer) {
  // 8-bit Adam: 10 bytes together, of which weights and gradients take 2 + 4.
  const DeviceMemory memory =
      device_memory(tiny(), {}, bare_stack(), {.element_bytes = 2, .state_bytes = 10});
  EXPECT_EQ(memory.optimizer.value, 4 * 2888.0);
  EXPECT_EQ(memory.gradients.value, 4 * 2888.0);
}

// Experts of 384 parameters: 3 layers x 4 of them are 4,608. The rest: four times attention and
// norms (208), one MLP (384), three routers (32) and the ends (520), 1,832.
TEST(DeviceMemory, experts_have_fewer_replicas) {
  Model m = tiny();
  m.experts = model::Experts{.count = 4, .per_token = 2, .ffn = 16, .dense_layers = 1};
  const Configuration c{{.data = 4, .expert = 2, .zero = 1}, 1, 4};
  const DeviceMemory memory = device_memory(m, c, bare_stack(), {});
  EXPECT_EQ(memory.parameters.value, 2 * (1832 + 4608.0 / 2));
  EXPECT_EQ(memory.optimizer.value, 12 * (1832.0 / 4 + 4608.0 / 2 / 2));
  // A token, 2 bytes per element. Attention: 24 in queries, keys, values and output, 4 bytes per
  // head for its softmax, 16 outside. The dense layer: 48 inside, 16 outside. The others: 3 x 16
  // for each of two experts; input, residual and two copies of 8; 8 bytes per expert for scores.
  const double attention = 2 * 24 + 8 + 2 * 16;
  const double dense = 2 * 48 + 2 * 16;
  const double experts = 2 * 3 * 32 + 2 * (16 + 16) + 8 * 4;
  EXPECT_EQ(memory.activations.value, 10 * (4 * attention + dense + 3 * experts));
}

TEST(DeviceMemory, tensor_divides_the_inside_and_sequence_parallelism_the_rest) {
  // 152 bytes per token and layer inside attention and MLP, 64 outside.
  Configuration c;
  EXPECT_EQ(activations(tiny(), c), 40 * (152 + 64));
  c.tensor = 2;
  EXPECT_EQ(activations(tiny(), c), 40 * (152.0 / 2 + 64));
  StackConstants gathers = bare_stack();
  gathers.gathered_inputs = true;
  c.sequence_parallel = true;
  EXPECT_EQ(activations(tiny(), c), 40 * (152 + 64) / 2.0);
  EXPECT_EQ(activations(tiny(), c, 0, gathers), 40 * ((152 + 32) / 2.0 + 32));
  c.context = 2;
  EXPECT_EQ(activations(tiny(), c), 20 * (152 + 64) / 2.0);
}

TEST(DeviceMemory, recomputation_keeps_less_and_works_on_one_layer) {
  Configuration c;
  c.recompute = Recompute::kSelective;
  EXPECT_EQ(activations(tiny(), c), 40 * (152 + 64)) << "fused attention keeps no scores";

  StackConstants unfused = bare_stack();
  unfused.attention = Attention::kUnfused;
  EXPECT_EQ(activations(tiny(), c, 0, unfused), 40 * (144 + 64));
  c.recompute = Recompute::kNone;  // 2 heads x 10 keys x 2 bytes
  EXPECT_EQ(activations(tiny(), c, 0, unfused), 40 * (144 + 40 + 64));

  // Input, queries, values, output of attention, gate: 8 + 8 + 4 + 8 + 16.
  StackConstants operators = bare_stack();
  operators.selective = SelectiveRecompute::kOperators;
  c.recompute = Recompute::kSelective;
  EXPECT_EQ(activations(tiny(), c, 0, operators), 40 * 2 * 44);

  // Of a layer the input stays, 16 bytes per token; 200 are computed again, beside gradients of
  // gate, up and their product (96) and two of the layer's input (32). Logits are less: 6 x 32
  // + 32.
  c.recompute = Recompute::kFull;
  const DeviceMemory full = device_memory(tiny(), c, bare_stack(), {});
  EXPECT_EQ(full.activations.value, 40 * 16);
  EXPECT_EQ(full.workspace.value, 10 * (200 + 96 + 32));
  StackConstants reserved = bare_stack();
  reserved.reserved = 1;
  EXPECT_EQ(device_memory(tiny(), c, reserved, {}).workspace.value, 10 * (328 + 224));
}

TEST(DeviceMemory, a_stage_keeps_the_microbatches_in_flight) {
  const double layer = 10 * (152 + 64);
  Configuration c{{.pipeline = 4}, 1, 8};
  EXPECT_EQ(activations(tiny(), c, 0), 4 * layer);
  EXPECT_EQ(activations(tiny(), c, 1), 3 * layer);
  EXPECT_EQ(activations(tiny(), c, 3), layer);
  c.global_batch = 2;
  EXPECT_EQ(activations(tiny(), c, 0), 2 * layer);
  c.global_batch = 8;
  c.schedule = layout::ScheduleKind::kGpipe;
  EXPECT_EQ(activations(tiny(), c, 3), 8 * layer);
  // A stack that keeps what a stage sends: 16 bytes per token; the last stage sends nothing.
  c.schedule = layout::ScheduleKind::k1F1B;
  StackConstants sender = bare_stack();
  sender.stage_outputs = true;
  EXPECT_EQ(activations(tiny(), c, 0, sender), 4 * (layer + 10 * 16));
  EXPECT_EQ(activations(tiny(), c, 3, sender), layer);
  // Interleaved: p layers' worth times 1 + (p-1)/(p v), Korthikanti et al., section 4.2.3.
  const Configuration interleaved{{.pipeline = 2, .virtual_stages = 2}, 1, 8};
  EXPECT_EQ(activations(tiny(), interleaved, 0), 4 * layer * (1 + 1.0 / 4));
}

// Six layers in four chunks, where the ends count as layers: 1, 2, 2, 1. The first position, with 1
// and 2, passes forward 0 0 1 1 0 before it first passes backward 1: three microbatches of its
// first chunk wait, and two of its second. The second one, with 2 and 1, passes forward 0 0 1,
// backward 1, forward 1, backward 1, forward 0: then three of its first chunk wait.
TEST(DeviceMemory, chunks_of_unlike_sizes_wait_as_the_schedule_orders_them) {
  const double layer = 10 * (152 + 64);
  Model m = tiny();
  m.layers = 6;
  Configuration c{{.pipeline = 2, .virtual_stages = 2}, 1, 8};
  EXPECT_EQ(activations(m, c, 0), (3 * 1 + 2 * 2) * layer);
  EXPECT_EQ(activations(m, c, 1), (3 * 2) * layer);
  c.global_batch = 1;  // a group that is not full
  EXPECT_EQ(activations(m, c, 0), (1 + 2) * layer);
}

// The stages that device_memory does not look at are never fuller.
TEST(DeviceMemory, the_fullest_stage_is_reported) {
  for (const char* name : {"gpt3-175b", "llama3-70b", "llama3.1-405b", "deepseek-v3"}) {
    const Model m = *model::preset(name);
    for (const int64_t pipeline : {2, 5, 8, 16, 30}) {
      for (const int64_t virtual_stages : {1, 2}) {
        for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
          Configuration c{{.tensor = 4, .data = 4, .pipeline = pipeline, .expert = 4}};
          c.virtual_stages = virtual_stages;
          c.recompute = recompute;
          for (const int64_t batch : {4, 40, 400}) {
            c.global_batch = batch;
            c.schedule = batch == 40 ? layout::ScheduleKind::kGpipe : layout::ScheduleKind::k1F1B;
            c.zero = batch % 3;
            double fullest = 0;
            for (int64_t stage = 0; stage < pipeline; ++stage) {
              fullest =
                  std::max(fullest, stage_memory(m, c, bare_stack(), {}, stage).total().value);
            }
            EXPECT_EQ(device_memory(m, c, bare_stack(), {}).total().value, fullest)
                << name << " on " << pipeline << ", batch " << batch;
          }
        }
      }
    }
  }
}

// 2 + 4 + 12 bytes in 16 bits: weights, gradients, and a master copy with two moments. In float32 the
// weights are that copy: 4 + 4 + 8.
TEST(DeviceMemory, float32_weights_are_their_own_master_copy) {
  const Model m = *model::preset("llama3-70b");
  const double parameters = static_cast<double>(model::parameters(m));
  const StackConstants stack;
  const DeviceMemory narrow = stage_memory(m, {}, stack, {.element_bytes = 2}, 0);
  const DeviceMemory wide = stage_memory(m, {}, stack, {.element_bytes = 4, .bf16 = false}, 0);
  EXPECT_EQ(narrow.parameters.value, 2 * parameters);
  EXPECT_EQ(narrow.gradients.value, 4 * parameters);
  EXPECT_EQ(narrow.optimizer.value, 12 * parameters);
  EXPECT_EQ(wide.parameters.value, 4 * parameters);
  EXPECT_EQ(wide.gradients.value, 4 * parameters);
  EXPECT_EQ(wide.optimizer.value, 8 * parameters);
  // Stated, all three are what is stated.
  const DeviceMemory stated =
      stage_memory(m, {}, stack, {.element_bytes = 4, .state_bytes = 12, .bf16 = false}, 0);
  EXPECT_EQ(stated.optimizer.value, 4 * parameters);
}

TEST(DeviceMemory, stages_hold_the_model) {
  StackConstants stack = bare_stack();
  stack.parameter_memory = 1;
  for (const auto& [name, pipeline] :
       {std::pair("llama3-70b", 8), std::pair("llama3-70b", 12), std::pair("llama3.1-405b", 16),
        std::pair("deepseek-v2", 8), std::pair("nemotron4-340b", 7)}) {
    const Model m = *model::preset(name);
    const Configuration c{{.pipeline = pipeline}};
    double parameters = 0;
    int64_t next_layer = 0;
    for (int64_t stage = 0; stage < pipeline; ++stage) {
      const model::Slice slice = model::stage_slice(m, pipeline, stage);
      EXPECT_EQ(slice.first_layer, next_layer) << name;
      next_layer += slice.layers;
      parameters += stage_memory(m, c, stack, {}, stage).parameters.value;
    }
    EXPECT_EQ(next_layer, m.layers) << name;
    EXPECT_EQ(parameters, static_cast<double>(model::parameters(m))) << name;
  }
}

TEST(DeviceMemory, embedding_and_head_are_a_layer_where_that_makes_stages_even) {
  // 126 layers on 16 stages: 8 slots each, of which the embedding and the head take one.
  const Model m = *model::preset("llama3.1-405b");
  EXPECT_EQ(model::stage_slice(m, 16, 0), (model::Slice{0, 7, true, false}));
  EXPECT_EQ(model::stage_slice(m, 16, 1), (model::Slice{7, 8, false, false}));
  EXPECT_EQ(model::stage_slice(m, 16, 15), (model::Slice{119, 7, false, true}));
  EXPECT_EQ(model::stage_slice(m, 4, 0).layers, 31);  // (126 + 2) / 4, less the embedding
  EXPECT_EQ(model::stage_slice(m, 5, 0).layers, 26);  // 126 = 26 + 4 x 25
}

// Published measurements. Constants are of the stack, and the band is what the law claims.

// Korthikanti et al. 2022, figures 1 and 7: the first stage. The paper counts layers only, so the
// embedding is taken away; 18 bytes per parameter, float32 gradients.
struct Korthikanti {
  const char* model;
  int64_t pipeline, virtual_stages, micro_batch, batch;
  double gib;        // figure 1, with selective recomputation and sequence parallelism
  double selective;  // figure 7, % of tensor parallelism alone
  double selective_and_sequence;
};
const Korthikanti kFigures[] = {{"gpt-22b", 1, 1, 4, 4, 9.5625, 49.42, 16.18},
                                {"gpt3-175b", 8, 3, 1, 64, 12.3515625, 56.53, 18.49},
                                {"gpt-530b", 35, 3, 1, 280, 0, 62.04, 20.27}};

TEST(DeviceMemory, prints_the_figures_of_korthikanti) {
  StackConstants stack = bare_stack();
  stack.attention = Attention::kUnfused;
  stack.dropout = true;
  for (const Korthikanti& row : kFigures) {
    Model m = *model::preset(row.model);
    m.vocabulary = 1;
    m.positions = model::Positions::kRotary;
    Configuration c{{.tensor = 8, .pipeline = row.pipeline, .virtual_stages = row.virtual_stages},
                    row.micro_batch,
                    row.batch};
    const DeviceMemory baseline = stage_memory(m, c, stack, {}, 0);
    c.recompute = Recompute::kSelective;
    const double selective = activations(m, c, 0, stack) / baseline.activations.value;
    EXPECT_NEAR(100 * selective, row.selective, 0.15) << row.model;
    c.sequence_parallel = true;
    const double bytes = activations(m, c, 0, stack);
    EXPECT_NEAR(100 * bytes / baseline.activations.value, row.selective_and_sequence, 0.05);
    if (row.gib > 0) {
      EXPECT_EQ(bytes / kGib, row.gib) << row.model;
      const Bytes state = baseline.parameters + baseline.gradients + baseline.optimizer;
      EXPECT_NEAR(state.value / kGib, 45.5625, 0.01) << row.model;
    }
  }
}

void expect_gib(const Model& m, const Configuration& c, const StackConstants& stack, double gib,
                double band, const std::string& row) {
  const double ours = device_memory(m, c, stack, {}).total().value / kGib;
  EXPECT_NEAR(ours / gib, 1, band) << row << ": measured " << gib << ", predicted " << ours;
}

// SimuMax v1.2: allocated on 8 B200 by Megatron-LM 0.14 with Transformer Engine, distributed
// optimizer, flash attention; few layers of each model.
TEST(DeviceMemory, is_near_what_megatron_allocates) {
  StackConstants stack = bare_stack();
  stack.layer_buffers = 2;
  Model llama = *model::preset("llama3-70b");
  llama.layers = 12;
  llama.sequence = 4096;
  Configuration c{{.zero = 1, .sequence_parallel = true}, 1, 32};
  c.tensor = 2, c.data = 4;
  expect_gib(llama, c, stack, 60.68, 0.02, "70B t2 d4");
  c.tensor = 8, c.data = 1;
  expect_gib(llama, c, stack, 28.29, 0.02, "70B t8");
  c.tensor = 1, c.pipeline = 2, c.data = 4;
  expect_gib(llama, c, stack, 66.55, 0.02, "70B p2 d4");
  llama.sequence = 131072;
  c.pipeline = 1, c.data = 1, c.context = 8;
  expect_gib(llama, c, stack, 147.99, 0.02, "70B c8, 131,072 tokens");

  for (const auto& [name, pipelined, whole] :
       {std::tuple("deepseek-v2", 44.70, 45.63), std::tuple("deepseek-v3", 114.0, 104.3)}) {
    Model m = *model::preset(name);
    m.layers = 4;
    m.sequence = 4096;
    m.experts->dense_layers = 1;
    m.multi_token_layers.reset();
    Configuration experts{{.data = 4, .pipeline = 2, .expert = 4, .zero = 1}, 1, 32};
    expect_gib(m, experts, stack, pipelined, 0.02, name);
    experts.data = experts.expert = 8;
    experts.pipeline = 1;
    expect_gib(m, experts, stack, whole, 0.02, name);
  }
}

// torchtitan, peak reserved on H100: float32 parameters sharded with their state.
TEST(DeviceMemory, is_near_what_fully_sharded_training_reserves) {
  StackConstants stack;
  stack.parameter_memory = 4;
  stack.optimizer_memory = 8;
  stack.selective = SelectiveRecompute::kOperators;
  stack.gathered_inputs = true;
  stack.activation_scale = 1.1;
  stack.logit_memory = 10;
  stack.reserved = 1;
  stack.workspace = 5_GiB;
  const Model small = *model::preset("llama3-8b");
  Configuration c{{.data = 128, .zero = 3}, 2, 256};
  c.recompute = Recompute::kSelective;
  expect_gib(small, c, stack, 62.0, 0.05, "8B on 128");
  c.data = 8;
  expect_gib(small, c, stack, 76.8, 0.05, "8B on 8");
  const Model large = *model::preset("llama3-70b");
  Configuration split{{.tensor = 8, .data = 32, .zero = 3}, 16, 512};
  split.sequence_parallel = true;
  split.recompute = Recompute::kFull;
  expect_gib(large, split, stack, 67.6, 0.05, "70B on 256");
}

// BLOOM's search, Megatron-DeepSpeed on A100 80 GB: the fuller of the first and the last node.
TEST(DeviceMemory, is_near_what_bloom_took) {
  StackConstants stack;
  stack.attention = Attention::kUnfused;
  stack.gradient_memory = 2;
  stack.stage_outputs = true;
  stack.activation_scale = 1.1;
  stack.workspace = 11_GiB;
  Model m = *model::preset("bloom-176b");
  m.layers = 72;
  m.heads = m.kv_heads = 64;
  Configuration c{{.tensor = 8, .zero = 1}, 1, 2048, layout::ScheduleKind::k1F1B, Recompute::kFull};
  c.pipeline = 12, c.data = 4, c.micro_batch = 8;
  expect_gib(m, c, stack, 69, 0.10, "p12 d4, microbatch 8");
  c.pipeline = 6, c.data = 8, c.micro_batch = 4;
  expect_gib(m, c, stack, 55, 0.10, "p6 d8, microbatch 4");
  c.pipeline = 4, c.data = 12, c.micro_batch = 2;
  expect_gib(m, c, stack, 53, 0.10, "p4 d12, microbatch 2");
  // Ran out of memory.
  c.tensor = 2, c.pipeline = 6, c.data = 32;
  EXPECT_GT(device_memory(m, c, stack, {}).total(), 80_GiB);

  stack.gradient_memory = 7;  // bf16, summed in float32
  m.layers = 70;
  c.tensor = 4, c.pipeline = 12, c.data = 8, c.micro_batch = 4;
  expect_gib(m, c, stack, 73, 0.10, "BLOOM 176B");
}

// Stage 1 of 4 holds as much as its layers do with the three microbatches that wait there.
TEST(DeviceMemory, of_any_slice_is_that_of_the_stage_which_holds_it) {
  const Model m = *model::preset("gpt3-175b");
  Configuration c{{.tensor = 8, .data = 4, .pipeline = 4, .zero = 1}, 1, 64};
  c.sequence_parallel = true;
  EXPECT_EQ(slice_memory(m, c, {}, {}, {24, 24, false, false}, 3), stage_memory(m, c, {}, {}, 1));
  EXPECT_GT(slice_memory(m, c, {}, {}, {24, 25, false, false}, 3).total(),
            slice_memory(m, c, {}, {}, {24, 24, false, false}, 3).total());
}

}  // namespace
}  // namespace tombolo::cost
