#include "base/csv.h"
#include "base/file.h"
#include "predict/published/reference.h"
#include "predict/published/reference_rows.h"

namespace tombolo::published {
namespace {

constexpr const char* kFile = "korthikanti2022_memory_per_gpu.csv";

// Table 5 of the paper, tensor parallelism of 8 throughout.
struct Run {
  const char* model;
  const char* preset;
  int64_t pipeline, virtual_stages, batch, micro_batch;
};
constexpr Run kRuns[] = {{"22B", "gpt-22b", 1, 1, 4, 4},
                         {"175B", "gpt3-175b", 8, 3, 64, 1},
                         {"530B", "gpt-530b", 35, 3, 280, 1},
                         {"1T", "gpt-1t", 64, 1, 512, 1}};

Result<plan::Job> job_of(const CsvRow& row) {
  const std::string model = TRY(row.text("model"));
  for (const Run& run : kRuns) {
    if (model != run.model) continue;
    plan::Job job;
    job.file = fmt::format("{}:{}", row.file(), row.line());
    job.model = TRY(model::preset(run.preset));
    job.cluster =
        detail::machines(TRY(cluster::catalog_device("a100-80g")), 8 * run.pipeline, 200_Gbps);
    job.training.global_batch = run.batch;
    job.training.micro_batch = run.micro_batch;
    job.training.precision = plan::Precision::kFp16;
    job.training.stack = "megatron-2022";
    job.training.optimizer_bytes_per_parameter = 18;
    job.parallelism.tensor = 8;
    job.parallelism.pipeline = run.pipeline;
    job.parallelism.virtual_stages = run.virtual_stages;
    if (run.virtual_stages > 1) job.parallelism.schedule = layout::ScheduleKind::kInterleaved;
    return job;
  }
  return fail(row.complaint("model", "wanted 22B, 175B, 530B or 1T"));
}

Result<ReferenceMemory> read_row(const CsvRow& row) {
  ReferenceMemory out;
  const std::string figure = TRY(row.text("figure")), mode = TRY(row.text("mode"));
  out.name = fmt::format("{} {} {}", figure, TRY(row.text("model")), mode);
  out.job = TRY(job_of(row));
  const plan::Job baseline = out.job;
  out.job.parallelism.sequence_parallel = mode.find("seq") != mode.npos;
  if (mode.starts_with("selective")) out.job.training.recompute = model::Recompute::kSelective;
  if (mode.starts_with("full")) out.job.training.recompute = model::Recompute::kFull;
  const std::string quantity = TRY(row.text("quantity"));
  if (quantity == "params_and_optimizer_gib") {
    out.kind = ReferenceMemory::Kind::kState;
  } else if (quantity == "activations_pct_of_tp_baseline") {
    out.baseline = baseline;
  } else if (quantity != "activations_gib") {
    return fail(row.complaint("quantity", "is not known"));
  }
  out.published = TRY(row.number("value"));
  if (out.published <= 0) return fail(row.complaint("value", "must be positive"));
  return out;
}

}  // namespace

Result<std::vector<ReferenceMemory>> read_reference_memory(const std::string& folder) {
  std::string file = kFile, text;
  if (folder.empty()) {
    text = reference_file(file);
  } else {
    file = folder + "/" + file;
    text = TRY(during(read_file(file), "reading the reference table korthikanti-memory"));
  }
  std::vector<ReferenceMemory> out;
  for (const CsvRow& row : TRY(parse_csv(text, file))) out.push_back(TRY(read_row(row)));
  return out;
}

}  // namespace tombolo::published
