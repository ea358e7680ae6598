#include "predict/published/error_band.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "base/quantiles.h"
#include "predict/cost/iteration.h"
#include "predict/cost/law.h"
#include "predict/published/reference_rows.h"

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
  plan::Job job;
  Seconds iteration;
};

RunClass class_of(const plan::Job& job, const cost::Constants& constants) {
  // Constants that stand in for missing ones are of another device.
  const bool own = constants.assumed.empty();
  return {own ? constants.device.name : job.cluster.datacenters[0].device.name,
          job.model->experts.has_value(), constants.stack.family,
          constants.stack.attention == cost::Attention::kFlash};
}

// Constants for one job after the other: those of the last one, where the next has the same machines and
// stack, as a thousand published runs have a few of each.
class ConstantsOf {
 public:
  Result<const cost::Constants*> operator()(const cluster::Datacenter& datacenter,
                                            std::string_view stack) {
    Asked asked{datacenter.device.name, datacenter.scale_up.fabric, datacenter.scale_out.fabric,
                std::string(stack)};
    if (!found_ || asked != asked_) {
      found_ = TRY(cost::find_constants(datacenter, stack));
      asked_ = std::move(asked);
    }
    return &*found_;
  }

 private:
  using Asked = std::array<std::string, 4>;  // of devices of the catalog, a name says all
  Asked asked_;
  std::optional<cost::Constants> found_;
};

Result<std::vector<PublishedRun>> read_runs() {
  std::vector<PublishedRun> runs;
  runs.reserve(1024);  // there are a thousand
  Status known;
  ConstantsOf constants_of;
  TRY(detail::each_row_unnamed([&](ReferenceRow& row) {
    if (!known || !row.iteration || row.ordering_only || !plan::check_divisions(row.job)) return;
    const auto constants = constants_of(row.job.cluster.datacenters[0], row.job.training.stack);
    if (!constants) {
      known = tl::unexpected(constants.error());
      return;
    }
    runs.push_back({class_of(row.job, **constants), std::move(row.job), *row.iteration});
  }));
  TRY(std::move(known));
  return runs;
}

// Measured over predicted, as the law has it of the run's job under another stack's constants.
Result<double> ratio(const PublishedRun& run, const std::string& stack, ConstantsOf& constants_of) {
  cost::LawSettings settings = cost::settings_of(run.job);
  settings.stack = stack;
  const cluster::Datacenter& datacenter = run.job.cluster.datacenters[0];
  const cost::IterationLaw law(*run.job.model, datacenter, settings,
                               *TRY(constants_of(datacenter, stack)));
  return run.iteration / law.time(TRY(cost::configuration_of(run.job))).total();
}

std::string text_of(const RunClass& of, const std::set<std::string>& stacks) {
  return fmt::format("{} on {}, stack{} {}", of.experts ? "mixtures of experts" : "dense models",
                     of.device, stacks.size() > 1 ? "s" : "", fmt::join(stacks, ", "));
}

// The class of runs that shares most with `asked`: the device first, then the class of model, then
// the family, then how attention is computed; of equals the one with most runs.
std::string nearest_class(const std::vector<PublishedRun>& runs, const RunClass& asked) {
  struct Found {
    int64_t rows = 0;
    std::set<std::string> stacks;
  };
  std::map<RunClass, Found> classes;
  for (const PublishedRun& run : runs) {
    Found& found = classes[run.of];
    ++found.rows;
    found.stacks.insert(run.job.training.stack);
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
  const RunClass asked =
      class_of(job, TRY(cost::find_constants(job.cluster.datacenters[0], job.training.stack)));

  std::vector<double> ratios;
  std::set<std::string> stacks;
  double sum = 0;
  ConstantsOf constants_of;
  for (const PublishedRun& run : *runs) {
    if (run.of != asked) continue;
    ratios.push_back(TRY(ratio(run, job.training.stack, constants_of)));
    stacks.insert(run.job.training.stack);
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
