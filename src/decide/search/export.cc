#include "decide/search/export.h"

#include "predict/cost/law.h"

namespace tombolo::search {
namespace {

// What neither program has words for.
Status check_words(const plan::Job& job) {
  if (!job.model) {
    return unusable(fmt::format("{}: model is missing", job.file),
                    "[model] with preset = \"gpt3-175b\" or config = \"config.json\"");
  }
  if (job.cluster.datacenters.size() > 1) {
    return unusable(
        fmt::format("{}: cluster: {} datacenters; Megatron and torchtitan have no words "
                    "for where stages lie",
                    job.file, job.cluster.datacenters.size()),
        "tombolo convert --to plan, or one [[cluster.datacenter]]");
  }
  if (!job.parallelism.tensor_per_stage.empty()) {
    return unusable(fmt::format("{}: parallelism.tensor_per_stage = [{}]: Megatron and torchtitan "
                                "have one tensor degree",
                                job.file, fmt::join(job.parallelism.tensor_per_stage, ", ")),
                    "tensor = 8 for all stages");
  }
  return plan::check_divisions(job);
}

}  // namespace

Result<Export> export_job(const plan::Job& job, const std::string& format) {
  TRY(check_words(job));
  if (format == "megatron") return to_megatron(job);
  if (format == "torchtitan") return to_torchtitan(job);
  return unusable(fmt::format("--export {}: there is no such format", format),
                  "--export megatron or --export torchtitan");
}

}  // namespace tombolo::search
