// Measurements that makers of stacks and machines publish.
#include <algorithm>
#include <cctype>

#include "predict/published/reference_rows.h"

namespace tombolo::published::detail {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

Status set_rate(const CsvRow& row, ReferenceRow& out) {
  const double rate = TRY(row.number("tokens_per_s_per_gpu"));
  if (rate <= 0) return fail(row.complaint("tokens_per_s_per_gpu", "must be positive"));
  out.iteration = iteration_of(out.job, rate);
  return {};
}

// Megatron's stages where the layers do not fill them, but would with embedding and head counted as
// a layer each, as in Llama 3.1 405B: 126 + 2 in 8 stages.
void count_embedding_and_head(plan::Job& job) {
  layout::Parallelism& p = job.parallelism;
  const int64_t layers = job.model->layers;
  if (p.pipeline == 1 || layers % p.pipeline == 0 || (layers + 2) % p.pipeline != 0) return;
  p.layers_per_stage.assign(static_cast<size_t>(p.pipeline), (layers + 2) / p.pipeline);
  --p.layers_per_stage.front();
  --p.layers_per_stage.back();
}

// What NVIDIA's tables have in common: NeMo on Megatron Core with its distributed optimizer.
Status set_nemo(const CsvRow& row, ReferenceRow& out) {
  plan::Job& job = out.job;
  layout::Parallelism& p = job.parallelism;
  job.training.stack = "nemo";
  if (row.has("precision")) {
    const std::string precision = lower(TRY(row.text("precision")));
    const bool fp8 = precision.starts_with("fp8");
    if (!fp8 && precision != "bf16") {
      return fail(row.complaint("precision", "wanted bf16 or fp8"));
    }
    job.training.precision = fp8 ? plan::Precision::kFp8 : plan::Precision::kBf16;
  }
  p.zero = row.has("fsdp") && TRY(row.count("fsdp")) == 1 ? 3 : 1;
  p.sequence_parallel = p.tensor > 1;
  count_embedding_and_head(job);
  if (job.model->latent_attention) {
    job.training.recompute = model::Recompute::kSelective;
    out.assumptions.push_back(
        "projections and MLP recomputed, as NVIDIA's recipe has it: counted "
        "as selective");
  } else {
    out.assumptions.push_back("no recomputation");
  }
  if (p.zero == 3) {
    out.assumptions.push_back("activations that the recipe moves to the host are not moved");
  }
  return {};
}

// Some of NVIDIA's runs of DeepSeek-V3 predict a second token with one layer more, some do not. The
// table does not say which, but its operations per token do: about 250 GFLOP without it and 260
// with.
Status set_second_token(const CsvRow& row, ReferenceRow& out) {
  model::Model& m = *out.job.model;
  if (!m.latent_attention || !row.has("model_tflops_per_gpu")) return {};
  const double per_token =
      1e12 * TRY(row.number("model_tflops_per_gpu")) / TRY(row.number("tokens_per_s_per_gpu"));
  if (per_token <= 255e9) return {};
  m.multi_token_layers = 1;
  out.assumptions.push_back("one layer for a second token: the operations per token count it");
  return {};
}

}  // namespace

Result<ReferenceRow> mosaicml_row(const CsvRow& row) {
  ReferenceRow out;
  plan::Job& job = out.job;
  TRY(read_shared_columns(row, job));
  job.cluster = TRY(machines(row, TRY(row.text("gpu")), 200_Gbps));
  job.model = TRY(preset_of(row, "mpt-"));
  const std::string strategy = TRY(row.text("fsdp_strategy"));
  if (strategy != "FULL_SHARD" && strategy != "SHARD_GRAD_OP") {
    return fail(row.complaint("fsdp_strategy", "wanted FULL_SHARD or SHARD_GRAD_OP"));
  }
  job.parallelism.zero = strategy == "FULL_SHARD" ? 3 : 2;
  job.training.precision =
      TRY(row.text("precision")) == "amp_fp8" ? plan::Precision::kFp8 : plan::Precision::kBf16;
  job.training.recompute =
      TRY(row.count("act_ckpt")) == 1 ? model::Recompute::kFull : model::Recompute::kNone;
  job.training.stack = "fsdp";
  TRY(set_rate(row, out));
  out.assumptions.push_back("1600 Gbps of RoCE per node of 8, where the source names the network");
  return out;
}

Result<ReferenceRow> nemo_row(const CsvRow& row) {
  ReferenceRow out;
  plan::Job& job = out.job;
  TRY(read_shared_columns(row, job));
  std::string device = lower(TRY(row.text("system")));
  if (device.starts_with("dgx-")) device.erase(0, 4);
  job.cluster = TRY(machines(row, device, port_of(device)));
  job.model = TRY(preset_of(row));
  TRY(set_nemo(row, out));
  TRY(set_rate(row, out));
  TRY(set_second_token(row, out));
  return out;
}

Result<ReferenceRow> dgxc_row(const CsvRow& row) {
  ReferenceRow out;
  plan::Job& job = out.job;
  TRY(read_shared_columns(row, job));
  const std::string device = lower(TRY(row.text("gpu")));
  job.cluster = TRY(machines(row, device, port_of(device)));
  job.model = TRY(preset_of(row));
  if (job.model->experts) job.parallelism.expert = 8;
  TRY(set_nemo(row, out));
  out.iteration = 1_s * TRY(row.number("step_time_s"));
  return out;
}

Result<ReferenceRow> mlperf_row(const CsvRow& row) {
  ReferenceRow out;
  plan::Job& job = out.job;
  TRY(read_shared_columns(row, job));
  job.cluster = TRY(machines(row, "h100-80g", port_of("h100-80g")));
  job.model = TRY(model::preset("gpt3-175b"));
  job.training.precision = plan::Precision::kFp8;
  job.parallelism.virtual_stages = 12;
  job.parallelism.schedule = layout::ScheduleKind::kInterleaved;
  TRY(set_nemo(row, out));
  out.assumptions.push_back(
      "12 virtual stages of one layer, the default of the submission's settings");
  out.iteration = 1_s * TRY(row.number("median_step_time_s"));
  return out;
}

Result<ReferenceRow> torchtitan_row(const CsvRow& row) {
  ReferenceRow out;
  plan::Job& job = out.job;
  TRY(read_shared_columns(row, job));
  layout::Parallelism& p = job.parallelism;
  job.cluster = TRY(machines(row, "h100-96g", port_of("h100-96g")));
  job.model = TRY(preset_of(row, "llama3.1-"));
  p.zero = 3;
  p.sequence_parallel = p.tensor > 1;
  const int64_t local_batch = TRY(degree(row, "local_batch"));
  // A pipeline cuts the local batch into sequences; else it is one microbatch.
  job.training.micro_batch = p.pipeline > 1 ? 1 : local_batch;
  job.training.global_batch = row.has("gbs") ? TRY(degree(row, "gbs")) : local_batch * p.data;
  const std::string technique = TRY(row.text("technique"));
  if (technique.find("nterleaved") != technique.npos) {
    p.schedule = layout::ScheduleKind::kInterleaved;
    p.virtual_stages = 2;
    out.assumptions.push_back("two virtual stages per device");
  }
  const std::string kept = TRY(row.text("act_ckpt"));
  job.training.recompute = kept == "full"   ? model::Recompute::kFull
                           : kept == "none" ? model::Recompute::kNone
                                            : model::Recompute::kSelective;
  if (job.training.recompute == model::Recompute::kSelective) {
    out.assumptions.push_back(
        "selective means torchtitan's: every other matrix product is done "
        "again, attention is kept");
  }
  job.training.precision =
      TRY(row.text("precision")) == "FP8" ? plan::Precision::kFp8 : plan::Precision::kBf16;
  job.training.stack = "torchtitan";
  out.assumptions.push_back("technique: " + technique);
  TRY(set_rate(row, out));
  if (row.has("mem_gib")) out.memory = 1_GiB * TRY(row.number("mem_gib"));
  return out;
}

Result<ReferenceRow> simumax_row(const CsvRow& row) {
  ReferenceRow out;
  plan::Job& job = out.job;
  layout::Parallelism& p = job.parallelism;
  p.tensor = TRY(degree(row, "tp"));
  p.context = TRY(degree(row, "cp"));
  p.expert = TRY(degree(row, "ep"));
  p.pipeline = TRY(degree(row, "pp"));
  p.data = TRY(degree(row, "dp"));
  const int64_t devices = p.tensor * p.context * p.pipeline * p.data;
  job.cluster = machines(TRY(cluster::catalog_device("b200")), devices, port_of("b200"));
  job.model = TRY(preset_of(row));
  model::Model& m = *job.model;
  // Megatron's null tokenizer adds a token, and the table is padded to 128 per tensor rank.
  const int64_t multiple = 128 * p.tensor;
  m.vocabulary = (m.vocabulary / multiple + 1) * multiple;
  if (m.experts) m.experts->dense_layers = 1;
  m.multi_token_layers.reset();
  job.training.micro_batch = 1;
  job.training.global_batch = TRY(degree(row, "micro_batches")) * p.data;
  job.training.stack = "megatron";
  // Weights 2, gradients added up in 32 bits 4, weights, momentum, variance 12.
  job.training.optimizer_bytes_per_parameter = 18;
  p.zero = 1;
  p.sequence_parallel = p.tensor > 1;
  out.iteration = 1_ms * TRY(row.number("iter_time_ms"));
  out.memory = 1_GiB * TRY(row.number("alloc_gib"));
  out.assumptions = {
      "flash attention, no recomputation, distributed optimizer, one dense layer in "
      "DeepSeek, as in the scripts of the source; experts of equal load"};
  return out;
}

}  // namespace tombolo::published::detail
