// Measurements of papers and of the BLOOM training.
#include <cmath>

#include "predict/published/reference_rows.h"

namespace tombolo::published::detail {
namespace {

// A100s with NVLink 3 and one 200 Gbps InfiniBand port each (DGX A100, as in Selene).
constexpr BytesPerSecond kSelene = 200_Gbps;

// What the rows of all these tables have in common.
Result<ReferenceRow> start(const CsvRow& row, const std::string& device,
                           BytesPerSecond per_device) {
  ReferenceRow out;
  plan::Job& job = out.job;
  TRY(read_shared_columns(row, job));
  job.cluster = TRY(machines(row, device, per_device));
  job.training.precision = plan::Precision::kFp16;
  if (row.has("iter_time_s")) out.iteration = 1_s * TRY(row.number("iter_time_s"));
  return out;
}

// A size such as "191B", in parameters.
Result<double> read_size(const CsvRow& row, std::string_view column) {
  const std::string text = TRY(row.text(column));
  char* end = nullptr;
  const double billions = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || std::string_view(end) != "B" || !(billions > 0 && billions < 1e6)) {
    return fail(row.complaint(column, "wanted billions of parameters", "\"175B\""));
  }
  return billions * 1e9;
}

// The number of layers, equally many on each of `stages`, that come nearest to `parameters` with 12
// h^2 parameters each.
int64_t layers_of_size(double parameters, int64_t hidden, int64_t stages) {
  const auto h = static_cast<double>(hidden);
  const double each = parameters / (12 * h * h * static_cast<double>(stages));
  return stages * std::max<int64_t>(1, std::llround(each));
}

}  // namespace

Result<ReferenceRow> korthikanti_row(const CsvRow& row) {
  ReferenceRow out = TRY(start(row, "a100-80g", kSelene));
  plan::Job& job = out.job;
  job.model = gpt({.layers = TRY(row.count("layers")),
                   .hidden = TRY(row.count("hidden")),
                   .heads = TRY(row.count("heads")),
                   .sequence = TRY(row.count("seq"))});
  job.model->name = TRY(row.text("model"));
  const std::string recompute = TRY(row.text("recompute"));
  const auto known = from_name<model::Recompute>(recompute);
  if (!known) return fail(row.complaint("recompute", "wanted none, selective or full"));
  job.training.recompute = *known;
  job.parallelism.sequence_parallel = TRY(row.count("seq_parallel")) == 1;
  job.training.stack = "megatron-2022";
  // Figure 1 has 18: weights 2, gradients added up in 32 bits 4, weights, momentum, variance 12.
  job.training.optimizer_bytes_per_parameter = 18;
  return out;
}

Result<ReferenceRow> vtrain_row(const CsvRow& row) {
  // 800 Gbps per node of 8.
  ReferenceRow out = TRY(start(row, "a100-80g", 100_Gbps));
  plan::Job& job = out.job;
  job.model = gpt({.layers = TRY(row.count("layers")),
                   .hidden = TRY(row.count("hidden")),
                   .heads = TRY(row.count("heads")),
                   .sequence = TRY(row.count("seq"))});
  job.training.recompute = model::Recompute::kFull;
  job.training.stack = "megatron-deepspeed";
  out.assumptions.push_back("vocabulary 51200, as Megatron pads GPT-2's; 80 GB of memory");
  return out;
}

Result<ReferenceRow> bloom_row(const CsvRow& row) {
  // Four Omni-Path ports of 100 Gbps per node of 8.
  ReferenceRow out = TRY(start(row, "a100-80g", 50_Gbps));
  plan::Job& job = out.job;
  job.cluster.datacenters[0].scale_out.fabric = "omni-path";
  GptShape shape{.hidden = TRY(row.count("hidden")),
                 .heads = 32,
                 .sequence = TRY(row.count("seq")),
                 .vocabulary = 250'880};
  if (shape.hidden < 1) return fail(row.complaint("hidden", "must be at least 1"));
  if (row.has("heads")) {
    shape.heads = TRY(row.count("heads"));
  } else {
    out.assumptions.push_back("32 heads, as in the same group's runs of that time");
  }
  if (row.has("layers")) {
    shape.layers = TRY(row.count("layers"));
  } else {
    shape.layers =
        layers_of_size(TRY(read_size(row, "size")), shape.hidden, job.parallelism.pipeline);
    out.assumptions.push_back(fmt::format(
        "{} layers: those of 12 h^2 parameters that are nearest to the size and fill the stages",
        shape.layers));
  }
  job.model = gpt(shape);
  job.model->name = TRY(row.text("size"));
  job.model->positions = model::Positions::kAlibi;
  job.training.recompute = model::Recompute::kFull;
  job.training.stack = "megatron-deepspeed";
  job.parallelism.zero = 1;
  if (row.text("precision").value_or("").starts_with("bf16")) {
    job.training.precision = plan::Precision::kBf16;
  }
  const int64_t stages = job.parallelism.pipeline;
  if (row.text("section").value_or("") == "Rebalancing layers" && stages > 1 &&
      (shape.layers + 2) % stages == 0) {
    // Embedding and head take the place of a layer each.
    const int64_t places = (shape.layers + 2) / stages;
    auto& layers = job.parallelism.layers_per_stage;
    layers.assign(static_cast<size_t>(stages), places);
    --layers.front();
    --layers.back();
  }
  if (row.has("mem_gb")) {
    out.memory = 1_GiB * TRY(row.number("mem_gb"));
    out.assumptions.push_back("GB of memory are counted in powers of two, as the tools print them");
  }
  out.out_of_memory = TRY(row.count("oom")) == 1;
  return out;
}

Result<ReferenceRow> v100_row(const CsvRow& row) {
  const int64_t memory = TRY(row.count("gpu_mem_gb"));
  // Four Omni-Path ports of 100 Gbps per node of 4.
  ReferenceRow out = TRY(start(row, fmt::format("v100-{}g", memory), 100_Gbps));
  plan::Job& job = out.job;
  job.cluster.datacenters[0].scale_out.fabric = "omni-path";
  job.model =
      gpt({.layers = layers_of_size(TRY(read_size(row, "size")), 8192, job.parallelism.pipeline),
           .hidden = 8192,
           .heads = 64,
           .sequence = TRY(row.count("seq"))});
  job.model->name = TRY(row.text("size"));
  job.training.recompute = model::Recompute::kFull;
  job.training.stack = "megatron-deepspeed";
  out.ordering_only = true;
  out.assumptions.push_back(
      fmt::format("{} layers of 8192, 64 heads, for a size of which the shape is not stated; "
                  "full recomputation",
                  job.model->layers));
  return out;
}

Result<ReferenceRow> misc_row(const CsvRow& row) {
  const std::string model = TRY(row.text("model"));
  const std::string gpu = TRY(row.text("gpu"));
  const bool hopper = gpu.starts_with("H");
  ReferenceRow out = TRY(start(row, gpu, hopper ? 400_Gbps : kSelene));
  plan::Job& job = out.job;
  const int64_t sequence = TRY(row.count("seq"));
  job.training.precision = plan::Precision::kBf16;
  if (model.starts_with("Llama")) {
    job.model = TRY(preset_of(row));
    job.training.stack = "megatron";
    job.parallelism.zero = 2;
    job.parallelism.sequence_parallel = true;
    out.assumptions.push_back(
        "ZeRO 2, microbatches of 1, no recomputation and context parallelism that balances causal "
        "attention, as the model's paper describes; the stack of its authors counted as "
        "Megatron's");
  } else {
    GptShape shape{.layers = 105, .hidden = 20480, .heads = 128, .sequence = sequence};
    if (model.find("175B") != model.npos) {
      shape = {.layers = 96, .hidden = 12288, .heads = 96, .sequence = sequence};
    } else if (model.find("530B") == model.npos) {
      return leave_out(row, "model", "no shape is known for it");
    }
    job.model = gpt(shape);
    job.model->name = model;
    job.training.stack = model.starts_with("MT-NLG") ? "megatron-deepspeed" : "megatron-2022";
    job.training.recompute = model::Recompute::kFull;
    out.assumptions.push_back("microbatches of 1, full recomputation, vocabulary 51200");
  }
  if (!out.iteration && row.has("tflops_per_gpu")) {
    // 6 operations per parameter and token and causal attention, the convention of such figures.
    const model::Model& m = *job.model;
    const auto tokens = static_cast<double>(sequence * job.training.global_batch);
    const double per_token =
        6 * static_cast<double>(model::parameters(m)) +
        6 * static_cast<double>(m.layers * m.attention_width()) * static_cast<double>(sequence);
    const double rate =
        TRY(row.number("tflops_per_gpu")) * 1e12 * static_cast<double>(job.cluster.devices());
    if (!(rate > 0)) return fail(row.complaint("tflops_per_gpu", "must be positive"));
    out.iteration = 1_s * (per_token * tokens / rate);
    out.assumptions.push_back(
        "time from TFLOPS, as 6 operations per parameter and token and "
        "causal attention");
  }
  return out;
}

}  // namespace tombolo::published::detail
