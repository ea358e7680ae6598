#include "predict/workload/workload_parts.h"

#include "predict/cost/layer_time.h"
#include "predict/workload/traffic_volume.h"

namespace tombolo::workload {
namespace {

class Cutter {
 public:
  Cutter(const plan::Job& job, const cost::IterationLaw& law, const cost::Configuration& c)
      : job_(job),
        m_(*job.model),
        c_(c),
        batch_(microbatch_volume(job, job.parallelism.tensor)),
        layout_(
            cost::lay_out(c, cost::usable_domain(law.datacenter().scale_up.domain, c.devices()))),
        pricer_(m_, law.datacenter(), law.constants(), plan::element_bytes(job.training.precision),
                job.training.precision == plan::Precision::kFp8) {}

  Part part(const std::string& name, const model::Slice& slice, bool halves) const {
    Part out{.name = name, .blocks = {}};
    const double t = real(c_.tensor);
    const cost::HeldParameters held = cost::held_parameters(m_, c_, slice);
    const bool divided = c_.expert > 1;
    out.dense = divided ? held.dense : held.total();
    out.experts = divided ? held.experts : 0;
    if (halves && !m_.parallel_residual.value_or(false)) {
      out.blocks = {block(name + " attention", slice, true, false),
                    block(name + " mlp", slice, false, true)};
    } else {
      out.blocks = {block(name, slice, true, true)};
    }
    const double moved = 2 * batch_.hidden / (c_.sequence_parallel ? t : 1);
    const auto count = static_cast<double>(out.blocks.size());
    for (LayerBlock& b : out.blocks) {
      b.touched =
          (out.dense + out.experts) * plan::element_bytes(job_.training.precision) / count + moved;
    }
    return out;
  }

 private:
  // Computation and exchanges of layers, of which `share` holds.
  struct Share {
    bool attention, mlp;
    double rest() const { return (attention ? 0.5 : 0) + (mlp ? 0.5 : 0); }
    double scores() const { return attention ? 1 : 0; }
  };

  LayerBlock block(const std::string& name, const model::Slice& slice, bool attention,
                   bool mlp) const {
    const Share share{attention, mlp};
    LayerBlock out;
    out.name = name;
    const model::LayerCounts counts = model::count_layers(m_, slice);
    if (counts.dense > 0) layers(out, real(counts.dense), false, share);
    if (counts.experts > 0) layers(out, real(counts.experts), true, share);
    if (slice.embedding) {
      // Its sum of tokens' vectors is scattered, its gradient gathered.
      around(out, pricer_.embedding(c_), 0, batch_.hidden);
    }
    if (slice.head) around(out, pricer_.head(c_, layout_), batch_.hidden, 0);
    add_flops(out, slice, share);
    if (c_.recompute == model::Recompute::kSelective) {
      out.backward_input += out.again;
      out.again = {};
    }
    return out;
  }

  void layers(LayerBlock& out, double count, bool experts, Share share) const {
    const cost::LayerTime time = pricer_.layer(c_, layout_, experts);
    const auto seconds = [&](const cost::LayerPass& pass) {
      return count *
             (share.scores() * pass.attention + share.rest() * (pass.compute - pass.attention));
    };
    Pass forward;
    forward.seconds = seconds(time.forward);
    double operations = 0;  // gathers of D, and as many scatters
    if (share.attention && !m_.parallel_residual.value_or(false)) operations += 1;
    if (share.mlp) {
      const bool split = experts && c_.expert > 1;
      operations += split ? real(m_.experts->per_token) + (m_.experts->shared_ffn > 0 ? 1 : 0) : 1;
      if (split) forward.tokens = count * batch_.copies;
    }
    forward.gather = forward.scatter = count * operations * batch_.hidden;
    if (share.attention) forward.context_gather = count * batch_.keys_values;
    out.forward += forward;

    // Gradients go the other way: what was gathered is scattered. Keys and values come once more,
    // their gradients go back.
    Pass input = forward;
    input.context_scatter = forward.context_gather;
    double backward = seconds(time.backward);
    switch (c_.recompute) {
      case model::Recompute::kNone:
        break;
      case model::Recompute::kSelective:
        out.again += Pass{.context_gather = forward.context_gather};
        break;
      case model::Recompute::kFull:
        out.again += forward;
        backward -= forward.seconds;
        break;
    }
    // The weights' products are as many as the inputs'; scores have no weights.
    const double scores = share.scores() * count *
                          (time.backward.attention -
                           (c_.recompute == model::Recompute::kFull ? time.forward.attention : 0));
    const double weight = (backward - scores) / 2;
    input.seconds = backward - weight;
    out.backward_input += input;
    out.backward_weight.seconds += weight;
  }

  static void around(LayerBlock& out, const cost::LayerTime& time, double gather, double scatter) {
    out.forward += Pass{.seconds = time.forward.compute, .gather = gather, .scatter = scatter};
    const double half = time.backward.compute / 2;
    out.backward_input += Pass{.seconds = half, .gather = scatter, .scatter = gather};
    out.backward_weight.seconds += half;
  }

  // Of one device: forward once, the gradients of inputs and of weights each as much.
  void add_flops(LayerBlock& out, const model::Slice& slice, Share share) const {
    const double devices = real(c_.tensor * c_.context);
    const double scores = model::score_flops(m_, slice, c_.micro_batch).value / devices;
    const model::Slice inside{slice.first_layer, slice.layers, false, false};
    const auto of = [&](const model::Slice& s) {
      const double all = model::forward_flops(m_, s, c_.micro_batch).value / devices;
      return share.scores() * scores + share.rest() * (all - scores);
    };
    const double forward = of(slice), attention = share.scores() * scores;
    out.forward.flops += forward;
    out.backward_input.flops += forward + attention;
    out.backward_weight.flops += forward - attention;
    if (c_.recompute == model::Recompute::kFull && inside.layers > 0) out.again.flops += of(inside);
    if (c_.recompute == model::Recompute::kSelective) out.again.flops += attention;
  }

  const plan::Job& job_;
  const model::Model& m_;
  const cost::Configuration& c_;
  cost::MicrobatchVolume batch_;
  cost::GroupPlacement layout_;
  cost::LayerPricer pricer_;
};

// The law adds what no single layer knows: the host's time, gradient accumulation in memory. Each
// piece of computation takes its share of it.
void scale_to(const cost::StageCompute& whole, std::vector<Part>& parts) {
  double forward = 0, backward = 0;
  for (const Part& part : parts) {
    for (const LayerBlock& b : part.blocks) {
      forward += b.forward.seconds;
      backward += b.again.seconds + b.backward_input.seconds + b.backward_weight.seconds;
    }
  }
  for (Part& part : parts) {
    for (LayerBlock& b : part.blocks) {
      if (forward > 0) b.forward.seconds *= whole.forward.value / forward;
      for (Pass* pass : {&b.again, &b.backward_input, &b.backward_weight}) {
        if (backward > 0) pass->seconds *= whole.backward.value / backward;
      }
    }
  }
}

}  // namespace

Pass& Pass::operator+=(const Pass& o) {
  seconds += o.seconds;
  flops += o.flops;
  gather += o.gather;
  scatter += o.scatter;
  context_gather += o.context_gather;
  context_scatter += o.context_scatter;
  tokens += o.tokens;
  return *this;
}

std::vector<Part> parts_of(const plan::Job& job, const model::Slice& chunk,
                           const cost::IterationLaw& law, const cost::Configuration& c,
                           Granularity granularity) {
  const Cutter cutter(job, law, c);
  std::vector<Part> parts;
  const Part whole = cutter.part("stage", chunk, false);
  if (granularity == Granularity::kStage) {
    parts.push_back(whole);
  } else {
    if (chunk.embedding) {
      parts.push_back(cutter.part("embedding", {chunk.first_layer, 0, true, false}, false));
    }
    for (int64_t i = chunk.first_layer; i < chunk.first_layer + chunk.layers; ++i) {
      parts.push_back(cutter.part(fmt::format("layer {}", i), {i, 1, false, false}, true));
    }
    const int64_t end = chunk.first_layer + chunk.layers;
    if (chunk.head) parts.push_back(cutter.part("head", {end, 0, false, true}, false));
    // A head tied to an embedding on the same stage has no parameters of its own.
    double others = 0;
    for (size_t i = 0; i + 1 < parts.size(); ++i) others += parts[i].dense;
    parts.back().dense = whole.dense - others;
  }
  cost::Configuration alone = c;
  alone.virtual_stages = 1;  // the chunk is priced separately
  scale_to(law.stage_compute(alone, chunk), parts);
  return parts;
}

}  // namespace tombolo::workload
