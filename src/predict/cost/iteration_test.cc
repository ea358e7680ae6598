#include "predict/cost/iteration.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tombolo::cost {
namespace {

// Constants under which only computation takes time.
Constants silent() {
  Constants c;
  for (FabricConstants* fabric : {&c.scale_up, &c.scale_out}) {
    *fabric = {.efficiency = 1, .single_efficiency = 1, .startup = 0_s, .latency = 0_s};
  }
  StackConstants& s = c.stack;
  s.host_layer = s.host_micro_batch = s.host_collective = s.host_iteration = 0_s;
  s.logit_bytes = 0;
  s.optimizer_passes = 0;
  return c;
}

cluster::Datacenter machines() {
  cluster::Datacenter d;
  d.device = *cluster::catalog_device("a100-80g");
  d.nodes = 512;
  d.devices_per_node = 8;
  d.scale_up = {.domain = 8, .bandwidth = 300_GBps};
  d.scale_out = {.bandwidth = 25_GBps};
  return d;
}

IterationLaw law(const Constants& constants, const model::Model& model) {
  return IterationLaw(model, machines(), {}, constants);
}

// Stages of four layers, neither embedding nor head worth mentioning, and no transfers: Narayanan
// et al. 2021, section 2.2.1 and 2.2.2: (m + (p-1)/v)(f + b).
TEST(Iteration, OfEqualStagesIsTheClosedForm) {
  model::Model m = *model::preset("gpt3-175b");
  m.layers = 32;
  m.vocabulary = 1;
  Constants constants = silent();
  const double huge = 1e9;  // rates that make transfers free
  cluster::Datacenter free = machines();
  free.scale_up.bandwidth = free.scale_up.bandwidth * huge;
  free.scale_out.bandwidth = free.scale_out.bandwidth * huge;
  const IterationLaw l(m, free, {}, constants);
  for (const int64_t v : {1, 2, 4}) {
    Configuration c{{.pipeline = 8, .virtual_stages = v}, 1, 24};
    const StagePrice middle = l.stage(c, {4, 4, false, false});
    const double f_and_b = (middle.forward + middle.backward).value;
    EXPECT_NEAR(l.time(c).total().value, (24 + 7.0 / static_cast<double>(v)) * f_and_b,
                0.002 * f_and_b * 24);
  }
}

// Where stages differ, the slowest sets the pace and the others are filled and drained once.
TEST(Iteration, OfUnequalStagesWaitsForTheSlowest) {
  model::Model m = *model::preset("gpt3-175b");
  m.layers = 7;  // 2 + 2 + 2 + 1, and the head on the last
  const IterationLaw l = law(silent(), m);
  const Configuration c{{.pipeline = 4}, 1, 16};
  double sum = 0, slowest = 0;
  for (int64_t stage = 0; stage < 4; ++stage) {
    const StagePrice price = l.stage(c, model::stage_slice(m, 4, stage));
    const double both = (price.forward + price.backward).value;
    sum += both;
    slowest = std::max(slowest, both);
  }
  const IterationTime time = l.time(c);
  EXPECT_NEAR((time.compute + time.bubble).value, 15 * slowest + sum, 1e-9 * sum);
}

// Layers may be spread unevenly; spread evenly it is the same answer.
TEST(Iteration, TakesTheLayersOfEachStage) {
  const model::Model m = *model::preset("gpt3-175b");
  const IterationLaw l = *IterationLaw::make(m, machines(), {.stack = "megatron-2022"});
  const Configuration c{{.tensor = 8, .pipeline = 4, .sequence_parallel = true}, 1, 16};
  const Prediction even = l.predict(c);
  const Prediction same = l.predict(c, {24, 24, 24, 24});
  EXPECT_EQ(same.time.total(), even.time.total());
  EXPECT_EQ(same.memory, even.memory);
  // The head takes part of a stage: a layer less there, a layer more elsewhere.
  EXPECT_LT(l.predict(c, {25, 24, 24, 23}).memory.parameters, even.memory.parameters * 1.05);
  EXPECT_GT(l.predict(c, {12, 36, 24, 24}).time.total(), even.time.total());
}

// 96 layers of a tiny model: kernels take next to nothing, so the host that launches a layer in
// 1 ms forward and 2 ms backward is all there is.
TEST(Iteration, OfASmallModelTakesAsLongAsTheHost) {
  model::Model m = *model::preset("gpt2");
  m.layers = 96;
  m.sequence = 16;
  m.vocabulary = 16;
  Constants constants = silent();
  constants.stack.host_layer = 1_ms;
  constants.stack.host_backward = 2;
  constants.device.kernel = 0_s;
  // Embedding and head are launched like one layer.
  EXPECT_NEAR(law(constants, m).time(Configuration{{}, 1, 10}).compute.value,
              10 * (97 + 2 * 97) * 1e-3, 1e-9);
}

// Of the sum of gradients only what the last backward pass does not hide is seen.
TEST(Iteration, HidesGradientsBehindTheBackwardPass) {
  const model::Model m = *model::preset("llama3-8b");
  Constants constants = silent();
  const Configuration c{{.data = 16}, 1, 16};
  const double open = law(constants, m).time(c).data_communication.value;
  constants.stack.gradient_overlap = 1;
  const StagePrice price = law(constants, m).stage(c, {0, m.layers, true, true});
  EXPECT_GT(open, 0);
  const double gradients = open / 2;  // a reduce-scatter, and a gather that nothing hides
  EXPECT_NEAR(law(constants, m).time(c).data_communication.value,
              gradients + std::max(0.0, gradients - price.backward.value), 1e-9);
}

// ZeRO 3 gathers parameters for every pass of every microbatch: three times the bytes each.
TEST(Iteration, ShardedParametersAreGatheredForEveryPass) {
  const model::Model m = *model::preset("llama3-8b");
  Constants constants = silent();
  const Configuration once{{.data = 16, .zero = 3}, 1, 64};
  Configuration fewer = once;
  fewer.micro_batch = 4;
  const double four = law(constants, m).time(once).data_communication.value;
  EXPECT_NEAR(law(constants, m).time(fewer).data_communication.value, four / 4, 1e-9 * four);
  constants.stack.parameter_overlap = 1;
  EXPECT_LT(law(constants, m).time(fewer).data_communication.value, four / 4);
}

// ZeRO 2 scatters gradients after every microbatch, and gathers parameters once; ZeRO 1 does each
// once, and so does ZeRO 2 of one microbatch, or in a pipeline.
TEST(Iteration, ScattersGradientsForEveryMicrobatchWithZero2) {
  const model::Model m = *model::preset("llama3-8b");
  const IterationLaw l = law(silent(), m);
  const auto data = [&](int64_t zero, int64_t microbatches, int64_t pipeline) {
    const layout::Degrees degrees{.data = 16, .pipeline = pipeline, .zero = zero};
    return l.time(Configuration{degrees, 1, 16 * microbatches}).data_communication.value;
  };
  // An all-reduce is two such halves, without ZeRO: gradients of 2 bytes, as parameters are.
  const double scatter = data(0, 1, 1) / 2, gather = scatter;
  EXPECT_NEAR(data(1, 8, 1), scatter + gather, 1e-9);
  EXPECT_NEAR(data(2, 1, 1), scatter + gather, 1e-9);
  EXPECT_NEAR(data(2, 8, 1), 8 * scatter + gather, 1e-9);
  EXPECT_EQ(data(2, 8, 2), data(1, 8, 2));
}

// The bound that the search cuts with holds for a thousand configurations of four models, on all
// devices and stacks.
TEST(Iteration, IsNeverFasterThanItsLowerBound) {
  Random random(7);
  const auto pick = [&](auto... values) {
    const int64_t list[] = {values...};
    return list[random.below(std::size(list))];
  };
  for (const char* name : {"gpt3-175b", "llama3-70b", "deepseek-v3", "qwen3-30b-a3b"}) {
    const model::Model m = *model::preset(name);
    for (const char* device : {"a100-80g", "h100-80g", "b200", "v100-32g"}) {
      cluster::Datacenter d = machines();
      d.device = *cluster::catalog_device(device);
      for (const StackConstants& stack : constant_files().stacks) {
        const LawSettings settings{.stack = stack.name, .fp8 = random.below(2) == 0};
        const IterationLaw l = *IterationLaw::make(m, d, settings);
        for (int i = 0; i < 10; ++i) {
          Configuration c{{.tensor = pick(1, 2, 4, 8),
                           .context = pick(1, 1, 2),
                           .data = pick(1, 4, 16),
                           .pipeline = pick(1, 2, 3, 8),
                           .virtual_stages = pick(1, 1, 2),
                           .zero = pick(0, 1, 2, 3),
                           .sequence_parallel = random.below(2) == 0},
                          pick(1, 2, 8)};
          c.recompute = static_cast<model::Recompute>(random.below(3));
          c.global_batch = c.micro_batch * c.data * pick(1, 4, 32);
          if (m.experts) c.expert = pick(1, 2, 4) <= c.data ? c.data : 1;
          const IterationTime time = l.time(c);
          EXPECT_GE(time.total(), l.lower_bound(c)) << name << " on " << device;
          EXPECT_EQ(time.total(), l.time(c).total());
          for (const Seconds part :
               {time.compute, time.bubble, time.bubble_communication, time.tensor_communication,
                time.context_communication, time.expert_communication, time.pipeline_communication,
                time.data_communication, time.optimizer}) {
            EXPECT_GE(part, 0_s) << name << " on " << device;
          }
        }
      }
    }
  }
}

// Keys and values of a ring travel behind attention; gathered whole they come before it. 131,072
// tokens of Llama 3 405B on 8 x 16 ranks: one head of keys and one of values of 128 numbers per
// rank, 131072 x 256 x 2 bytes = 67.1 MB, of which 15/16 arrive at 25 GB/s x efficiency; three
// times per layer, forward once and backward twice.
TEST(Iteration, GathersKeysAndValuesBehindAttentionOrBeforeIt) {
  model::Model m = *model::preset("llama3.1-405b");
  m.sequence = 131072;
  const Configuration c{{.tensor = 8, .context = 16, .sequence_parallel = true}, 1, 1};
  Constants constants = silent();
  const IterationTime ring = IterationLaw(m, machines(), {}, constants).time(c);
  EXPECT_EQ(ring.context_communication, 0_s);
  constants.stack.context_overlap = 0;
  const IterationTime whole = IterationLaw(m, machines(), {}, constants).time(c);
  const FabricConstants& out = constants.scale_out;
  const double once = 131072 * 256 * 2.0 * 15 / 16 / (25e9 * out.efficiency) + out.startup.value +
                      std::min(15.0, 2 * std::log2(16.0)) * out.latency.value;
  EXPECT_NEAR(whole.context_communication.value, 126 * 3 * once, 1e-9);
  EXPECT_EQ(whole.compute, ring.compute);
}

TEST(Iteration, StagesHoldEveryLayer) {
  const model::Model m = *model::preset("gpt-22b");
  const IterationLaw priced = law(silent(), m);
  const Configuration c{{.pipeline = 2}, 1, 4};
  EXPECT_DEATH(priced.predict(c, {24, 23}), "stages of 47 layers for a model of 48");
  EXPECT_DEATH(priced.stage_memory(c, {0, 24, true, false}, -1), "-1 forward passes wait");
}

}  // namespace
}  // namespace tombolo::cost
