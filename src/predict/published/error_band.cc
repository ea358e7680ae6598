#include "predict/published/error_band.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "base/quantiles.h"
#include "predict/cost/iteration.h"
#include "predict/cost/law.h"
#include "predict/published/reference.h"

namespace tombolo::published {
namespace {

constexpr size_t kEnough = 8;

// What tells published runs apart.
struct RunClass {
  std::string device;  // whose constants; of a device without any its own name
  bool experts = false;
  std::string family;  // of stacks
  bool fused = false;  // its attention

  bool operator==(const RunClass&) const = default;
  auto operator<=>(const RunClass&) const = default;
};

struct PublishedRun {
  RunClass of;
  ReferenceRow row;
};

RunClass class_of(const plan::Job& job, const cost::Constants& constants) {
  // Constants that stand in for missing ones are of another device.
  const bool own = constants.assumed.empty();
  return {own ? constants.device.name : job.cluster.datacenters[0].device.name,
          job.model->experts.has_value(), constants.stack.family,
          constants.stack.attention == cost::Attention::kFlash};
}

Result<cost::Constants> constants_of(const plan::Job& job) {
  return cost::find_constants(job.cluster.datacenters[0], job.training.stack);
}

Result<std::vector<PublishedRun>> read_runs() {
  std::vector<PublishedRun> runs;
  for (const std::string& table : reference_names()) {
    for (ReferenceRow& row : TRY(read_reference("", table))) {
      if (!row.iteration || row.ordering_only || !plan::check_divisions(row.job)) continue;
      const RunClass of = class_of(row.job, TRY(constants_of(row.job)));
      runs.push_back({of, std::move(row)});
    }
  }
  return runs;
}

// Measured over predicted, as the law has it of the row's job under another stack's constants.
Result<double> ratio(const ReferenceRow& row, const std::string& stack) {
  cost::LawSettings settings = cost::settings_of(row.job.training);
  settings.stack = stack;
  const cost::IterationLaw law =
      TRY(cost::IterationLaw::make(*row.job.model, row.job.cluster.datacenters[0], settings));
  return *row.iteration / law.time(TRY(cost::configuration_of(row.job))).total();
}

std::string text_of(const RunClass& of, const std::set<std::string>& stacks) {
  return fmt::format("{} on {}, stack{} {}", of.experts ? "mixtures of experts" : "dense models",
                     of.device, stacks.size() > 1 ? "s" : "", fmt::join(stacks, ", "));
}

// The class of at least so many runs that shares most with `asked`: the device first, then the
// class of model, then the family, then how attention is computed; of equals the one with most.
std::string nearest_class(const std::vector<PublishedRun>& runs, const RunClass& asked) {
  struct Found {
    int64_t rows = 0;
    std::set<std::string> stacks;
  };
  std::map<RunClass, Found> classes;
  for (const PublishedRun& run : runs) {
    Found& found = classes[run.of];
    ++found.rows;
    found.stacks.insert(run.row.job.training.stack);
  }
  const auto likeness = [&](const std::pair<const RunClass, Found>& one) {
    const RunClass& of = one.first;
    return std::tuple(of.device == asked.device, of.experts == asked.experts,
                      of.family == asked.family, of.fused == asked.fused, one.second.rows);
  };
  const auto nearest =
      std::max_element(classes.begin(), classes.end(),
                       [&](const auto& a, const auto& b) { return likeness(a) < likeness(b); });
  CHECK(nearest != classes.end(), "no published run at all");
  return fmt::format("{} ({} row{})", text_of(nearest->first, nearest->second.stacks),
                     nearest->second.rows, nearest->second.rows == 1 ? "" : "s");
}

}  // namespace

Result<BandOrNote> error_band(const plan::Job& job, Seconds iteration) {
  CHECK(job.model && !job.cluster.datacenters.empty(), "{}: a job for {} on {} datacenters",
        job.file, job.model ? job.model->name : "no model", job.cluster.datacenters.size());
  static const Result<std::vector<PublishedRun>> runs = read_runs();
  if (!runs) return tl::unexpected(runs.error());
  const RunClass asked = class_of(job, TRY(constants_of(job)));

  std::vector<double> ratios;
  std::set<std::string> stacks;
  double sum = 0;
  for (const PublishedRun& run : *runs) {
    if (run.of != asked) continue;
    ratios.push_back(TRY(ratio(run.row, job.training.stack)));
    stacks.insert(run.row.job.training.stack);
    sum += std::abs(1 / ratios.back() - 1);
  }
  BandOrNote answer;
  if (ratios.size() < kEnough) {
    answer.note = fmt::format(
        "no error band: {} published runs of {}; nearest are {}",
        ratios.empty() ? "there are no" : fmt::format("there are only {}", ratios.size()),
        text_of(asked, {job.training.stack}), nearest_class(*runs, asked));
    return answer;
  }
  answer.band = ErrorBand{.low = iteration * quantile(ratios, 0.1),
                          .high = iteration * quantile(ratios, 0.9),
                          .mean = sum / static_cast<double>(ratios.size()),
                          .rows = static_cast<int64_t>(ratios.size()),
                          .of = text_of(asked, stacks)};
  return answer;
}

}  // namespace tombolo::published
