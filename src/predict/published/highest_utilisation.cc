#include "predict/published/highest_utilisation.h"

#include <map>

#include "predict/cost/law.h"
#include "predict/published/reference.h"
#include "predict/published/reference_rows.h"

namespace tombolo::published {
namespace {

constexpr int64_t kSequenceMax = 8192;

double utilisation(const ReferenceRow& row) {
  const plan::Job& job = row.job;
  const cluster::Device& device = job.cluster.datacenters[0].device;
  const bool eight = job.training.precision == plan::Precision::kFp8 && device.peak_fp8;
  const Flops possible = (eight ? *device.peak_fp8 : device.peak) *
                         static_cast<double>(job.cluster.devices()) * *row.iteration;
  return cost::model_flops(*job.model, job.training.global_batch) / possible;
}

using ByKind = std::map<std::pair<std::string, bool>, HighestUtilisation>;

void consider(ByKind& highest, HighestUtilisation one) {
  HighestUtilisation& known = highest[{one.device, one.experts}];
  one.runs = ++known.runs;
  if (one.mfu > known.mfu) known = std::move(one);
}

Status consider_single_figures(ByKind& highest) {
  constexpr const char* kFile = "highest_utilisation.csv";
  for (const CsvRow& row : TRY(parse_csv(reference_file(kFile), kFile))) {
    const std::string kind = TRY(row.text("class"));
    if (kind != "dense" && kind != "mixture") {
      return fail(row.complaint("class", "wanted dense or mixture"));
    }
    consider(highest,
             {.device = TRY(row.text("device")),
              .experts = kind == "mixture",
              .mfu = TRY(row.number("mfu_pct")) / 100,
              .run = fmt::format("{} ({})", TRY(row.text("run")), TRY(row.text("read_from")))});
  }
  return {};
}

}  // namespace

const std::string& kind_of(const cost::DeviceConstants& device) {
  return device.kind.empty() ? device.name : device.kind;
}

Result<std::vector<HighestUtilisation>> highest_utilisations() {
  ByKind highest;
  for (const std::string& table : reference_names()) {
    for (const ReferenceRow& row : TRY(read_reference("", table))) {
      if (!row.iteration || row.job.model->sequence > kSequenceMax) continue;
      const cost::Constants constants =
          TRY(cost::find_constants(row.job.cluster.datacenters[0], row.job.training.stack));
      consider(highest,
               {.device = kind_of(constants.device),
                .experts = row.job.model->experts.has_value(),
                .mfu = utilisation(row),
                .run = fmt::format("{}: {}, {} tokens, {}", table, row.name,
                                   row.job.model->sequence, to_name(row.job.training.precision))});
    }
  }
  TRY(consider_single_figures(highest));
  std::vector<HighestUtilisation> out;
  for (auto& [kind, one] : highest) out.push_back(std::move(one));
  return out;
}

}  // namespace tombolo::published
