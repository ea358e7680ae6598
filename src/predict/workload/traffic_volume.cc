#include "predict/workload/traffic_volume.h"

#include <algorithm>

#include "base/check.h"
#include "spec/model/model.h"

namespace tombolo::workload {
namespace {

Status check(const plan::Job& job) {
  const layout::Parallelism& p = job.parallelism;
  const auto refuse = [&](const char* key, int64_t value, const std::string& why,
                          const std::string& hint) {
    return unusable(fmt::format("{}: parallelism.{} = {}: {}", job.file, key, value, why), hint);
  };
  if (!job.model) {
    return unusable(fmt::format("{}: model is missing", job.file),
                    "[model] with preset = \"gpt3-175b\" or config = \"config.json\"");
  }
  TRY(plan::check_divisions(job));
  if (p.expert == 1) return {};
  const auto& each = p.tensor_per_stage;
  const bool split = p.tensor > 1 || std::any_of(each.begin(), each.end(),
                                                 [](int64_t tensor) { return tensor > 1; });
  if (split && !p.sequence_parallel) {
    return refuse("expert", p.expert,
                  "with tensor parallelism but without sequence parallelism every token would be "
                  "sent tensor times",
                  "sequence_parallel = true");
  }
  return {};
}

// All-gathers and reduce-scatters of D, forward and backward, of one layer.
double tensor_operations(const plan::Job& job, const VolumeOptions& options, bool experts) {
  const layout::Parallelism& p = job.parallelism;
  const model::Model& m = *job.model;
  const double passes = job.training.recompute == model::Recompute::kFull ? 3 : 2;
  double attention = 2, mlp = 2;  // one gather, one reduce-scatter: as many bytes as an all-reduce
  if (experts && p.expert > 1) {
    mlp = 2 * real(m.experts->per_token) + (m.experts->shared_ffn > 0 ? 2 : 0);
  }
  if (m.parallel_residual.value_or(false)) attention = 0;  // one sum for both
  const double again = options.gather_again && p.sequence_parallel ? (attention + mlp) / 2 : 0;
  return passes * (attention + mlp) + again;
}

// All-gathers and reduce-scatters of a parameter and its gradient, in bytes, per iteration.
double data_bytes(const plan::Job& job, int64_t of_pipeline) {
  const auto microbatches = real(of_pipeline);
  const double weight = plan::element_bytes(job.training.precision);
  const double gradient = plan::gradient_bytes(job);
  const auto sums = real(job.parallelism.gradient_sums(of_pipeline));
  switch (job.parallelism.zero) {
    case 0:
      return 2 * gradient;
    case 3:
      return microbatches * 2 * weight + sums * gradient;
    default:
      return sums * gradient + weight;
  }
}

void note_what_is_left_out(const plan::Job& job, std::vector<std::string>& notes) {
  const layout::Parallelism& p = job.parallelism;
  int64_t widest = 1;
  for (int64_t s = 0; s < p.pipeline; ++s) widest = std::max(widest, p.tensor_at(s));
  if (widest > 1) {
    notes.push_back(
        "parameters that tensor parallelism copies, such as norms, are counted as divided");
  }
}

}  // namespace

cost::MicrobatchVolume microbatch_volume(const plan::Job& job, int64_t tensor) {
  CHECK(job.model, "{}: a job without a model", job.file);
  cost::Configuration one{job.parallelism};
  one.tensor = tensor;
  one.micro_batch = job.training.micro_batch;
  return cost::microbatch_volume(*job.model, one, plan::element_bytes(job.training.precision));
}

Result<TrafficVolume> traffic_volume(const plan::Job& job, const VolumeOptions& options) {
  TRY(check(job));
  const layout::Parallelism& p = job.parallelism;
  const model::Model& m = *job.model;
  const double microbatches =
      real(job.training.global_batch) / real(job.training.micro_batch * p.data);
  const bool full = job.training.recompute == model::Recompute::kFull;
  const auto e = real(p.expert);

  TrafficVolume out;
  out.chunks = p.virtual_stages;
  out.folded = p.mapping() == layout::StageMapping::kFold;
  out.experts = p.expert;
  out.stages.resize(static_cast<size_t>(p.pipeline));
  const std::vector<model::Slice> slices = plan::split_layers(m, p);
  for (size_t i = 0; i < slices.size(); ++i) {
    const model::Slice& slice = slices[i];
    const int64_t position = p.position_of(static_cast<int32_t>(i));
    StageVolume& stage = out.stages[static_cast<size_t>(position)];
    const int64_t tensor = p.tensor_at(position);
    const cost::MicrobatchVolume batch = microbatch_volume(job, tensor);
    const model::LayerCounts layers = model::count_layers(m, slice);
    const auto dense = real(layers.dense), routed = real(layers.experts);

    double operations = dense * tensor_operations(job, options, false) +
                        routed * tensor_operations(job, options, true);
    if (slice.embedding) operations += 2;  // lookup, and its gradient
    if (slice.head) operations += 2;       // the head's input, and its gradient
    // Every rank has whole activations, and sends its part of them (plan::Plan::boundary): what came
    // is gathered.
    const auto elsewhere = [&](size_t chunk) {
      return p.position_of(static_cast<int32_t>(chunk)) != position;
    };
    if (!p.sequence_parallel) {
      operations += (i > 0 && elsewhere(i - 1)) + (i + 1 < slices.size() && elsewhere(i + 1));
    }
    stage.tensor += Bytes{microbatches * operations * batch.hidden};

    // Forward once; backward keys and values again, and their gradients.
    const bool scores_again = job.training.recompute != model::Recompute::kNone;
    const double rings = scores_again ? 4 : 3;
    stage.context += Bytes{microbatches * (dense + routed) * rings * batch.keys_values};

    // Dispatch and combine, forward and backward.
    if (p.expert > 1) {
      stage.expert += Bytes{microbatches * routed * (full ? 6 : 4) * batch.copies / e};
    }

    cost::Configuration one{p};
    one.tensor = tensor;
    const cost::HeldParameters held = cost::held_parameters(m, one, slice);
    // A pipeline with fewer microbatches takes part in the sums of the others'.
    const double per_parameter = data_bytes(job, job.microbatches());
    const bool divided = p.expert > 1;
    stage.data += Bytes{(divided ? held.dense : held.total()) * per_parameter};
    if (divided) stage.expert_data += Bytes{held.experts * per_parameter};
  }
  const double hidden = microbatch_volume(job, p.tensor).hidden;
  const auto t = real(p.tensor);
  out.boundary = Bytes{microbatches * hidden / t};
  out.whole_boundary = Bytes{microbatches * hidden};
  if (m.tied_embeddings && p.pipeline > 1 && !out.folded) {
    // An all-reduce between two: each sends its half and the sum of the other's.
    const double bytes = plan::gradient_bytes(job);
    out.tied = Bytes{real(m.vocabulary * m.hidden) / t * bytes};
    out.whole_tied = Bytes{real(m.vocabulary * m.hidden) * bytes};
  }
  note_what_is_left_out(job, out.notes);
  return out;
}

}  // namespace tombolo::workload
