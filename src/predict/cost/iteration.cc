#include "predict/cost/iteration.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "predict/cost/layer_time.h"
#include "predict/cost/volume.h"

namespace tombolo::cost {
namespace {

// One microbatch through one stage, in one direction: where the time goes, and its sum.
struct SlicePass {
  double compute = 0;  // kernels, or the host that launches them
  double tensor = 0;   // exposed
  double context = 0;
  double expert = 0;

  double total() const { return compute + tensor + context + expert; }
};

struct Stage {
  SlicePass forward, backward;
  double total() const { return forward.total() + backward.total(); }
};

// What one configuration needs several times.
class Pricing {
 public:
  Pricing(const model::Model& model, const cluster::Datacenter& datacenter,
          const Constants& constants, const LawSettings& settings, const Configuration& c)
      : m_(model),
        stack_(constants.stack),
        settings_(settings),
        c_(c),
        layout_(lay_out(c, usable_domain(datacenter.scale_up.domain, c.devices()))),
        pricer_(model, datacenter, constants, settings.element_bytes, settings.fp8) {
    const double nodes = settings.all_nodes ? real(datacenter.nodes)
                                            : real(c.devices()) / real(datacenter.devices_per_node);
    spread_ = 1 + stack_.spread * std::max(0.0, std::log2(nodes));
    layers_ = price_layers(c_);
  }

  Stage stage(const model::Slice& slice) const { return stage(slice, layers_, c_.recompute); }

  // The same with every activation kept: the rest of the backward pass is recomputation.
  Stage stage_without_recompute(const model::Slice& slice) const {
    Configuration kept = c_;
    kept.recompute = model::Recompute::kNone;
    return stage(slice, price_layers(kept), model::Recompute::kNone);
  }

  // `slice_of` gives the layers of a stage by its index.
  template <class SliceOf>
  IterationTime time(const SliceOf& slice_of) const {
    const int64_t p = c_.pipeline;
    const double m = real(c_.microbatches()), v = real(c_.virtual_stages);
    Stage slowest, previous;
    model::Slice slowest_slice;
    model::LayerCounts counts;
    double others = 0;
    for (int64_t index = 0; index < p; ++index) {
      const model::Slice slice = slice_of(index);
      const model::LayerCounts now = model::count_layers(m_, slice);
      // Stages between the ends come in few kinds, one after the other.
      const bool another = index <= 1 || index == p - 1 || !(now == counts);
      if (another) previous = stage(slice);
      counts = now;
      others += previous.total();
      if (another && previous.total() > slowest.total()) {
        slowest = previous;
        slowest_slice = slice;
      }
    }
    others -= slowest.total();

    IterationTime time;
    const auto sum = [&](double SlicePass::*part) {
      return slowest.forward.*part + slowest.backward.*part;
    };
    time.compute = Seconds{m * sum(&SlicePass::compute) * spread_};
    time.tensor_communication = Seconds{m * sum(&SlicePass::tensor)};
    time.context_communication = Seconds{m * sum(&SlicePass::context)};
    time.expert_communication = Seconds{m * sum(&SlicePass::expert)};
    time.bubble = Seconds{others / v * spread_};
    if (p > 1) {
      const double once = transfer();
      time.bubble_communication = Seconds{2 * real(p - 1) * once};
      time.pipeline_communication = Seconds{2 * (m - 1) * v * once * (1 - stack_.pipeline_overlap)};
    }
    synchronise(slowest, slowest_slice, time);
    return time;
  }

  double spread() const { return spread_; }
  double parameters_held(const model::Slice& slice) const { return held(slice).total(); }

  double transfer() const {
    const double t = real(c_.tensor);
    const bool scattered = c_.sequence_parallel || stack_.scatter_pipeline;
    double time = pricer_.transfer(boundary() / (scattered ? t : 1), layout_.pipeline);
    if (scattered && !c_.sequence_parallel) time += pricer_.all_gather(boundary(), layout_.tensor);
    return time;
  }

  // What a stage hands on per microbatch, all tensor ranks together.
  double boundary() const { return microbatch_volume(m_, c_, settings_.element_bytes).hidden; }

  // Gradient reduction, gathers of parameters and the optimizer step of one stage.
  void synchronise(const Stage& s, const model::Slice& slice, IterationTime& time) const {
    const DataParallel data = data_parallel(s, slice);
    const double m = real(c_.microbatches());
    time.data_communication =
        Seconds{(m * (data.per_forward + data.per_backward) + data.once) * spread_};

    const HeldParameters mine = held(slice);
    const double sharded = c_.zero > 0 ? real(layout_.gradients.degree()) : 1;
    const double sharded_experts = c_.zero > 0 ? real(expert_replicas().degree()) : 1;
    const double state =
        (mine.dense / sharded + mine.experts / sharded_experts) * settings_.state_bytes;
    time.optimizer = Seconds{pricer_.memory(state * stack_.optimizer_passes) +
                             stack_.host_optimizer_layer.value * real(slice.layers)};
    time.overhead = stack_.host_iteration;
  }

  // Exposed gathers of parameters and gradient reductions: for each microbatch, and once per
  // iteration.
  struct DataParallel {
    double per_forward = 0, per_backward = 0, once = 0;
    double hidden = 0;  // of what happens once, behind the last backward pass
  };
  DataParallel data_parallel(const Stage& s, const model::Slice& slice) const {
    const HeldParameters mine = held(slice);
    const double dense = mine.dense, experts = mine.experts;
    const DegreeSplit& group = layout_.gradients;
    const DegreeSplit expert_group = expert_replicas();
    const auto gather = [&](double bytes_per_parameter) {
      return pricer_.all_gather(dense * bytes_per_parameter, group) +
             (experts > 0 ? pricer_.all_gather(experts * bytes_per_parameter, expert_group) : 0);
    };
    const double gradients = gather(stack_.gradient_bytes);
    const double parameters = gather(settings_.element_bytes);
    const auto hidden = [&](double communication, double behind, double share) {
      return std::min(communication, behind * share);
    };
    const auto exposed = [&](double communication, double behind, double share) {
      const double away = hidden(communication, behind, share);
      return communication - away + away * stack_.interference;
    };
    DataParallel out;
    if (c_.zero == 3) {
      // Gathered for each pass, and summed after each backward pass.
      out.per_forward = exposed(parameters, s.forward.total(), stack_.parameter_overlap);
      out.per_backward =
          exposed(parameters + gradients, s.backward.total(), stack_.parameter_overlap);
      return out;
    }
    if (c_.sums_each_microbatch() && c_.microbatches() > 1) {
      out.per_backward = exposed(gradients, s.backward.total(), stack_.gradient_overlap);
      out.once = exposed(parameters, s.forward.total(), stack_.gradient_overlap);
      return out;
    }
    // Behind the last backward pass, and the first forward pass of the next iteration.
    out.hidden = hidden(gradients, s.backward.total(), stack_.gradient_overlap);
    out.once = exposed(gradients, s.backward.total(), stack_.gradient_overlap);
    // Those of earlier rounds, each behind the backward passes of the next.
    out.once += real(c_.gradient_sums() - 1) *
                exposed(gradients, real(c_.pipeline) * s.backward.total(), stack_.gradient_overlap);
    out.once += c_.zero > 0 ? exposed(parameters, s.forward.total(), stack_.gradient_overlap)
                            : exposed(gradients, 0, 0);
    return out;
  }

 private:
  HeldParameters held(const model::Slice& slice) const { return held_parameters(m_, c_, slice); }

  // One layer of each kind that the model has.
  struct Layers {
    LayerTime dense, experts;
  };
  Layers price_layers(const Configuration& c) const {
    Layers out;
    if (m_.has_dense_layers()) out.dense = pricer_.layer(c, layout_, false);
    if (m_.experts) out.experts = pricer_.layer(c, layout_, true);
    return out;
  }

  Stage stage(const model::Slice& slice, const Layers& each, model::Recompute recompute) const {
    const model::LayerCounts counts = model::count_layers(m_, slice);
    LayerTime sum;
    const auto add = [&](const LayerTime& time, double times) {
      sum.forward += time.forward * times;
      sum.backward += time.backward * times;
    };
    add(each.dense, real(counts.dense));
    add(each.experts, real(counts.experts));
    const double layers = real(counts.dense + counts.experts + counts.multi_token);
    if (slice.embedding) add(pricer_.embedding(c_), 1);
    if (slice.head) add(pricer_.head(c_, layout_), 1);
    if (counts.multi_token > 0) {
      add(m_.experts ? each.experts : each.dense, real(counts.multi_token));
      add(pricer_.head(c_, layout_), real(counts.multi_token));
    }
    if (stack_.accumulate_bytes > 0) {
      sum.backward.compute += pricer_.memory(held(slice).total() * stack_.accumulate_bytes);
    }
    const double again = recompute == model::Recompute::kFull ? 1 : 0;
    const double mixtures = real(counts.experts + (m_.experts ? counts.multi_token : 0));
    return {expose(sum.forward, layers, mixtures, 1, slice),
            expose(sum.backward, layers, mixtures, stack_.host_backward + again, slice)};
  }

  SlicePass expose(const LayerPass& pass, double layers, double mixtures, double host_factor,
                   const model::Slice& slice) const {
    SlicePass stage;
    stage.tensor = pass.tensor * (1 - stack_.tensor_overlap);
    stage.expert = pass.expert * (1 - stack_.expert_overlap);
    // In a ring keys and values travel while attention computes on those that came before; gathered
    // whole they come first (Llama 3).
    stage.context = std::max(0.0, pass.context - pass.attention * stack_.context_overlap);
    double host =
        (stack_.host_layer.value * layers + stack_.host_experts.value * mixtures) * host_factor +
        stack_.host_micro_batch.value * real(c_.virtual_stages);
    if (c_.tensor > 1) host += 2 * layers * host_factor * stack_.host_collective.value;
    if (slice.embedding || slice.head) host += stack_.host_layer.value * host_factor;
    const double communication = stage.tensor + stage.expert + stage.context;
    // Kernels wait for the host, and the host for nothing: the longer of the two.
    stage.compute = std::max(pass.compute, host - communication);
    return stage;
  }

  // The ranks that hold the same experts: those of context and data outside the expert group.
  DegreeSplit expert_replicas() const {
    const DegreeSplit& g = layout_.gradients;
    const DegreeSplit& e = layout_.expert;
    return {std::max<int64_t>(1, g.domain / e.domain), std::max<int64_t>(1, g.network / e.network)};
  }

  const model::Model& m_;
  const StackConstants& stack_;
  const LawSettings& settings_;
  const Configuration& c_;
  GroupPlacement layout_;
  LayerPricer pricer_;
  double spread_ = 1;
  Layers layers_;
};

PassPrice price_of(const SlicePass& pass, double spread) {
  return {Seconds{pass.compute * spread}, Seconds{pass.tensor}, Seconds{pass.context},
          Seconds{pass.expert}, 0_s};
}

MemoryInputs memory_inputs(const LawSettings& settings) {
  return {.element_bytes = settings.element_bytes,
          .state_bytes = settings.state_bytes,
          .bf16 = settings.bf16,
          .prefill = settings.prefill};
}

}  // namespace

IterationLaw::IterationLaw(const model::Model& model, const cluster::Datacenter& datacenter,
                           const LawSettings& settings, Constants constants)
    : model_(model),
      datacenter_(datacenter),
      settings_(settings),
      constants_(std::move(constants)) {}

Result<IterationLaw> IterationLaw::make(const model::Model& model,
                                        const cluster::Datacenter& datacenter,
                                        const LawSettings& settings) {
  Constants constants = TRY(find_constants(datacenter, settings.stack));
  return IterationLaw(model, datacenter, settings, std::move(constants));
}

IterationTime IterationLaw::time(const Configuration& c) const {
  return Pricing(model_, datacenter_, constants_, settings_, c).time([&](int64_t stage) {
    return model::stage_slice(model_, c.pipeline, stage);
  });
}

DeviceMemory IterationLaw::memory(const Configuration& c) const {
  return device_memory(model_, c, constants_.stack, memory_inputs(settings_));
}

Prediction IterationLaw::predict(const Configuration& c) const { return {time(c), memory(c)}; }

Prediction IterationLaw::predict(const Configuration& c,
                                 const std::vector<int64_t>& layers_per_stage) const {
  CHECK(std::ssize(layers_per_stage) == c.pipeline, "layers for {} stages of {}",
        layers_per_stage.size(), c.pipeline);
  std::vector<model::Slice> slices;
  int64_t first = 0;
  for (const int64_t layers : layers_per_stage) {
    slices.push_back({first, layers, slices.empty(), std::ssize(slices) == c.pipeline - 1});
    first += layers;
  }
  CHECK(first == model_.layers, "stages of {} layers for a model of {}", first, model_.layers);
  Prediction out;
  out.time = Pricing(model_, datacenter_, constants_, settings_, c).time([&](int64_t stage) {
    return slices[static_cast<size_t>(stage)];
  });
  for (int64_t stage = 0; stage < c.pipeline; ++stage) {
    const int64_t in_flight =
        c.all_forwards_first() ? c.microbatches() : std::min(c.microbatches(), c.pipeline - stage);
    const DeviceMemory here = stage_memory(c, slices[static_cast<size_t>(stage)], in_flight);
    if (here.total() > out.memory.total()) out.memory = here;
  }
  return out;
}

StagePrice IterationLaw::stage(const Configuration& c, const model::Slice& slice) const {
  const Pricing pricing(model_, datacenter_, constants_, settings_, c);
  const auto s = pricing.stage(slice);
  IterationTime once;
  pricing.synchronise(s, slice, once);
  return {price_of(s.forward, pricing.spread()).total(),
          price_of(s.backward, pricing.spread()).total(), once.optimizer, once.data_communication};
}

StageParts IterationLaw::stage_parts(const Configuration& c, const model::Slice& slice) const {
  const Pricing pricing(model_, datacenter_, constants_, settings_, c);
  const auto whole = pricing.stage(slice), kept = pricing.stage_without_recompute(slice);
  IterationTime once;
  pricing.synchronise(whole, slice, once);
  const auto data = pricing.data_parallel(whole, slice);
  StageParts parts{.forward = price_of(whole.forward, pricing.spread()),
                   .backward = price_of(kept.backward, pricing.spread()),
                   .gradients = Seconds{data.once * pricing.spread()},
                   .gradients_hidden = Seconds{data.hidden * pricing.spread()},
                   .update = once.optimizer,
                   .overhead = once.overhead};
  parts.forward.data = Seconds{data.per_forward * pricing.spread()};
  parts.backward.data = Seconds{data.per_backward * pricing.spread()};
  const PassPrice all = price_of(whole.backward, pricing.spread());
  const auto rest = [&](Seconds PassPrice::*part) {
    return std::max(0_s, all.*part - parts.backward.*part);
  };
  parts.recompute = {rest(&PassPrice::compute), rest(&PassPrice::tensor), rest(&PassPrice::context),
                     rest(&PassPrice::expert), 0_s};
  return parts;
}

StageCompute IterationLaw::stage_compute(const Configuration& c, const model::Slice& slice) const {
  const Pricing pricing(model_, datacenter_, constants_, settings_, c);
  const auto s = pricing.stage(slice);
  return {Seconds{s.forward.compute * pricing.spread()},
          Seconds{s.backward.compute * pricing.spread()}};
}

double IterationLaw::parameters_held(const Configuration& c, const model::Slice& slice) const {
  return Pricing(model_, datacenter_, constants_, settings_, c).parameters_held(slice);
}

DeviceMemory IterationLaw::stage_memory(const Configuration& c, const model::Slice& slice,
                                        int64_t microbatches_in_flight) const {
  return slice_memory(model_, c, constants_.stack, memory_inputs(settings_), slice,
                      real(microbatches_in_flight));
}

Seconds IterationLaw::transfer(const Configuration& c) const {
  return Seconds{Pricing(model_, datacenter_, constants_, settings_, c).transfer()};
}

Bytes IterationLaw::boundary(const Configuration& c) const {
  return model::boundary_bytes(model_, c.micro_batch, settings_.element_bytes) /
         real(c.context * (c.sequence_parallel ? c.tensor : 1));
}

Seconds IterationLaw::lower_bound(const Configuration& c) const {
  const double peak = usable_peak(datacenter_.device, settings_.fp8).value;
  const DeviceConstants& d = constants_.device;
  const double best = peak * std::max({d.matmul_efficiency, d.fp8_efficiency, d.flash_efficiency,
                                       d.scores_efficiency});
  // Fused attention computes half of the scores that model_flops counts.
  const double scores =
      3 * model::score_flops(model_, {0, model_.layers, false, false}, c.global_batch).value;
  const double flops = model_flops(model_, c.global_batch).value - scores / 2;
  return Seconds{flops / (best * real(c.devices()))};
}

FlopsPerSecond usable_peak(const cluster::Device& device, bool fp8) {
  return fp8 && device.peak_fp8 ? *device.peak_fp8 : device.peak;
}

Flops model_flops(const model::Model& model, int64_t global_batch) {
  return 3 * model::forward_flops(model, {0, model.layers, true, true}, global_batch);
}

}  // namespace tombolo::cost
