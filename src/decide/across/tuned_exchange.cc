#include "decide/across/tuned_exchange.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/parallel.h"
#include "predict/cost/price_plan.h"
#include "predict/sim/simulate.h"
#include "spec/schedule/schedule.h"

namespace tombolo::across {
namespace {

using tune::ConvergenceProfile;
using tune::ProbeBounds;

constexpr int64_t kGrid = 12;          // batches and densities on the first look
constexpr double kFineEnough = 1.015;  // quotient of neighbours at which a search ends

// So fine that a line that is just full stays so: an iteration is as long as what is sent.
double of_three_digits(double density) {
  const double unit = std::pow(10, std::floor(std::log10(density)) - 2);
  return std::clamp(std::round(density / unit) * unit, 1e-9, 1.0);
}

// Of the batches within the bounds the nearest one.
int64_t nearest_batch(const ProbeBounds& bounds, double batch) {
  const double index = (batch - real(bounds.batch_min)) / real(bounds.batch_step);
  return bounds.batch(
      std::clamp<int64_t>(static_cast<int64_t>(std::llround(index)), 0, bounds.batches() - 1));
}

double at_share(double from, double to, double share) { return from * std::pow(to / from, share); }

class SettingSearch {
 public:
  SettingSearch(const plan::Job& job, const ConvergenceProfile& profile,
                const TuningOptions& options)
      : job_(job), profile_(profile), bounds_(profile.record().bounds), options_(options) {}

  Result<TunedExchange> best() {
    std::set<Setting> grid;
    for (int64_t i = 0; i <= kGrid; ++i) {
      for (int64_t j = 0; j <= kGrid; ++j) {
        grid.insert(
            setting(at_share(bounds_.density_min, 1, real(i) / kGrid),
                    at_share(real(bounds_.batch_min), real(bounds_.batch_max), real(j) / kGrid)));
      }
    }
    look_at(grid);
    if (!best_) return tl::unexpected(*refusal_);
    refine_each_batch();
    // A line that is just full makes a ridge along which density and batch grow together, so that steps
    // along both at once are among those that are tried.
    double density_step = std::pow(1 / bounds_.density_min, 0.5 / kGrid);
    double batch_step = std::pow(real(bounds_.batch_max) / real(bounds_.batch_min), 0.5 / kGrid);
    while (density_step > kFineEnough || batch_step > kFineEnough) {
      const TunedExchange before = *best_;
      look_at(
          around(before, std::max(density_step, kFineEnough), std::max(batch_step, kFineEnough)));
      if (best_->density != before.density || best_->batch != before.batch) continue;
      density_step = std::sqrt(density_step);
      batch_step = std::sqrt(batch_step);
    }
    return *best_;
  }

 private:
  using Setting = std::pair<double, int64_t>;

  // The best density of each batch of the grid: along the ridge there are several tops, since batches come in steps.
  void refine_each_batch() {
    std::map<int64_t, Setting> tops;
    const auto climb = [&] {
      for (const auto& [setting, per_sample] : seen_) {
        const auto [top, is_first] = tops.emplace(setting.second, setting);
        if (!is_first && per_sample < seen_.at(top->second)) top->second = setting;
      }
    };
    for (double step = std::pow(1 / bounds_.density_min, 0.5 / kGrid); step > kFineEnough;
         step = std::sqrt(step)) {
      climb();
      std::set<Setting> beside;
      for (const auto& [batch, top] : tops) {
        for (const double factor : {1 / step, step})
          beside.insert(setting(top.first * factor, real(batch)));
      }
      look_at(beside);
    }
  }

  Setting setting(double density, double batch) const {
    return {of_three_digits(std::clamp(density, bounds_.density_min, 1.0)),
            nearest_batch(bounds_, batch)};
  }

  std::set<Setting> around(const TunedExchange& at, double density_step, double batch_step) const {
    std::set<Setting> settings;
    for (const int d : {-1, 0, 1}) {
      for (const int b : {-1, 0, 1}) {
        auto [density, batch] = setting(at.density * std::pow(density_step, d),
                                        real(at.batch) * std::pow(batch_step, b));
        if (b != 0 && batch == at.batch)
          batch = nearest_batch(bounds_, real(batch + b * bounds_.batch_step));
        settings.insert({density, batch});
      }
    }
    return settings;
  }

  void look_at(const std::set<Setting>& settings) {
    std::vector<Setting> open;
    for (const Setting& each : settings) {
      if (seen_.emplace(each, std::numeric_limits<double>::infinity()).second) open.push_back(each);
    }
    std::vector<std::optional<Result<TunedExchange>>> found(open.size());
    parallel_for(open.size(), threads_or_all(options_.threads), [&](size_t i) {
      found[i] =
          priced(with_setting(job_, open[i].first, open[i].second), profile_, options_.hardware);
    });
    for (size_t i = 0; i < open.size(); ++i) {
      const Result<TunedExchange>& one = *found[i];
      if (!one) {
        if (!refusal_) refusal_ = one.error();
        continue;
      }
      seen_[open[i]] = one->per_sample().value;
      if (!best_ || one->per_sample() < best_->per_sample()) best_ = *one;
    }
  }

  const plan::Job& job_;
  const ConvergenceProfile& profile_;
  const ProbeBounds& bounds_;
  const TuningOptions& options_;
  std::map<Setting, double> seen_;  // seconds a sample; infinite where it was refused
  std::optional<TunedExchange> best_;
  std::optional<Error> refusal_;
};

}  // namespace

Result<ProbeBounds> tuning_bounds(const plan::Job& job, int64_t most, double density_min) {
  if (job.exchange && job.exchange->is_local()) {
    return unusable(
        fmt::format("{}: [exchange] mode = \"{}\": what is tuned is the density of sparse "
                    "updates, which cross at every step",
                    job.file, to_name(job.exchange->mode)),
        "mode = \"sparse\"");
  }
  const layout::Parallelism& p = job.parallelism;
  if (!p.microbatches_per_replica.empty()) {
    return unusable(
        fmt::format("{}: parallelism.microbatches_per_replica is given, and the batch is "
                    "to be tuned",
                    job.file),
        "microbatches_per_replica = \"auto\", or leaving it out");
  }
  const plan::Plan plan = TRY(cost::make_plan(job));
  if (!plan.replicas_lie_apart()) {
    return unusable(
        fmt::format("{}: no stage has replicas in several datacenters, so that no gradients "
                    "cross a line",
                    job.file),
        "data = 2 or more, with datacenter_per_replica");
  }
  const int64_t together = job.training.micro_batch * p.data;
  ProbeBounds bounds{.batch_min = together,
                     .batch_max = 0,
                     .batch_step = p.microbatches_by_speed ? job.training.micro_batch : together,
                     .density_min = density_min};
  if (job.exchange) bounds.select = job.exchange->select;
  if (job.model) bounds.training = tune::probed_training(job);
  bounds.batch_max =
      bounds.batch_min + (most - bounds.batch_min) / bounds.batch_step * bounds.batch_step;
  if (most < together) {
    return unusable(
        fmt::format("the largest batch, {}, is smaller than a microbatch of {} for each of {} "
                    "pipelines",
                    most, job.training.micro_batch, p.data),
        fmt::format("--batch-max {}", together));
  }
  return bounds;
}

plan::Job with_setting(plan::Job job, double density, int64_t batch) {
  plan::Exchange exchange = job.exchange.value_or(plan::Exchange{});
  exchange.mode = plan::ExchangeMode::kSparse;
  exchange.mode_is_auto = false;
  exchange.overlap = true;
  exchange.density = density;
  exchange.density_range.clear();
  job.exchange = exchange;
  job.training.global_batch = batch;
  return job;
}

Result<TunedExchange> priced(const plan::Job& job, const ConvergenceProfile& profile,
                             const plan::Hardware* hardware) {
  const plan::Plan plan = TRY(cost::make_plan(job, hardware));
  TRY(schedule::check_memory(plan, TRY(schedule::build(plan))));
  TunedExchange tuned;
  tuned.density = plan.exchange && plan.exchange->is_sparse() ? plan.exchange->density_in_use() : 1;
  tuned.batch = job.training.global_batch;
  tuned.iteration = seconds(TRY(sim::iteration_time(plan)));
  const tune::Belief belief = profile.log_samples_factor(tuned.density, real(tuned.batch));
  tuned.samples_factor = std::exp(belief.mean);
  tuned.doubt = std::sqrt(belief.variance);
  return tuned;
}

Result<TunedExchange> tuned_exchange(const plan::Job& job, const ConvergenceProfile& profile,
                                     const TuningOptions& options) {
  return SettingSearch(job, profile, options).best();
}

}  // namespace tombolo::across
