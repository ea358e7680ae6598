#include "predict/published/error_band.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "base/quantiles.h"
#include "predict/cost/iteration.h"
#include "predict/cost/law.h"
#include "predict/published/reference.h"

namespace tombolo::published {
namespace {

constexpr size_t kEnough = 8;

// One published run: what distinguishes it, and measured over predicted.
struct Residual {
  std::string stack;   // release
  std::string device;  // constants of
  bool experts = false;
  double ratio = 1;
};

Result<std::vector<Residual>> compute_residuals() {
  std::vector<Residual> residuals;
  for (const std::string& table : reference_names()) {
    for (const ReferenceRow& row : TRY(read_reference("", table))) {
      if (!row.iteration || row.ordering_only || !cost::check_divisions(row.job)) continue;
      const cost::IterationLaw law = TRY(cost::IterationLaw::make(
          *row.job.model, row.job.cluster.datacenters[0], cost::settings_of(row.job.training)));
      const cost::Configuration configuration = TRY(cost::configuration_of(row.job));
      residuals.push_back({law.constants().stack.name, law.constants().device.name,
                           row.job.model->experts.has_value(),
                           *row.iteration / law.time(configuration).total()});
    }
  }
  return residuals;
}

}  // namespace

Result<ErrorBand> error_band(const plan::Job& job, Seconds iteration) {
  CHECK(job.model && !job.cluster.datacenters.empty(), "{}: a job for {} on {} datacenters",
        job.file, job.model ? job.model->name : "no model", job.cluster.datacenters.size());
  static const Result<std::vector<Residual>> residuals = compute_residuals();
  if (!residuals) return tl::unexpected(residuals.error());
  const cost::Constants constants =
      TRY(cost::find_constants(job.cluster.datacenters[0], job.training.stack));
  const std::string& stack = constants.stack.name;
  const std::string& device = constants.device.name;
  const bool experts = job.model->experts.has_value();
  const std::string kind = experts ? "mixtures of experts" : "dense models";

  struct Alike {
    std::string of;
    std::function<bool(const Residual&)> matches;
  };
  const Alike choices[] = {
      {fmt::format("{}, stack {} on {}", kind, stack, device),
       [&](const Residual& r) {
         return r.stack == stack && r.device == device && r.experts == experts;
       }},
      {fmt::format("{}, stack {}", kind, stack),
       [&](const Residual& r) { return r.stack == stack && r.experts == experts; }},
      {fmt::format("{} on {}", kind, device),
       [&](const Residual& r) { return r.device == device && r.experts == experts; }},
      {fmt::format("{}", kind), [&](const Residual& r) { return r.experts == experts; }}};
  for (const Alike& alike : choices) {
    std::vector<double> ratios;
    double sum = 0;
    for (const Residual& residual : *residuals) {
      if (!alike.matches(residual)) continue;
      ratios.push_back(residual.ratio);
      sum += std::abs(1 / residual.ratio - 1);
    }
    if (ratios.size() < kEnough) continue;
    return ErrorBand{.low = iteration * quantile(ratios, 0.1),
                     .high = iteration * quantile(ratios, 0.9),
                     .mean = sum / static_cast<double>(ratios.size()),
                     .rows = static_cast<int64_t>(ratios.size()),
                     .of = alike.of};
  }
  return failed("there are too few published runs for an error band");
}

}  // namespace tombolo::published
