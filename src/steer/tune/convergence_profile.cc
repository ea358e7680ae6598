#include "steer/tune/convergence_profile.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/json.h"

namespace tombolo::tune {
namespace {

constexpr int kDrawnProbes = 4;
constexpr int64_t kBatchesMax = 1025;

// Batches matter by their quotients, from 32 to 64 as much as from 512 to 1024, and so does what is
// sent, from 4 % to 2 % as much as from 100 % to 50 %: down to a thousandth, below which less and
// less.
constexpr double kLittle = 0.001;
Point place_of(double density, double batch) {
  return {std::log2(density + kLittle), std::log2(batch)};
}

// The checks of a file, of a record that was made by a program.
Status check(const ProbeRecord& record) {
  const auto again = read_fields<ProbeRecord>(write_fields(record), "profile");
  if (!again) return fail(again.error());
  return {};
}

template <typename F>
void for_batches(const ProbeBounds& bounds, F&& f) {
  const int64_t last = bounds.batches() - 1, count = std::min(last + 1, kBatchesMax);
  for (int64_t i = 0; i < count; ++i) {
    const double share = count > 1 ? real(i) / real(count - 1) : 0;
    f(bounds.batch(static_cast<int64_t>(std::llround(share * real(last)))));
  }
}

// Without a loss that is no number; the last quarter's mean below the first loss.
bool has_learnt(const LossCurve& curve) {
  const auto is_loss = [](double loss) { return std::isfinite(loss) && loss > 0; };
  if (!std::all_of(curve.losses.begin(), curve.losses.end(), is_loss)) return false;
  const auto last = std::max<int64_t>(std::ssize(curve.losses) / 4, 1);
  const double sum = std::accumulate(curve.losses.end() - last, curve.losses.end(), 0.0);
  return sum / real(last) < curve.losses.front();
}

}  // namespace

std::optional<std::string> note_on_training(const ProbeBounds& bounds, const std::string& file,
                                            const plan::Job& job) {
  if (!bounds.training) return std::nullopt;
  const std::vector<std::string> differ = differences(*bounds.training, job);
  if (differ.empty()) return std::nullopt;
  return fmt::format("{} was measured with {}: how many steps sparse updates need may differ", file,
                     fmt::join(differ, "; "));
}

Result<ProbeRecord> parse_probes(std::string_view json, const std::string& file) {
  return read_fields<ProbeRecord>(TRY(parse_json(json, file)), file);
}

Result<ConvergenceProfile> ConvergenceProfile::of(ProbeRecord record) {
  TRY(check(record));
  std::vector<Point> points;
  std::vector<double> values;
  for (const ConvergenceProbe& probe : record.probes) {
    points.push_back(place_of(probe.density, real(probe.batch)));
    values.push_back(std::log(probe.samples_factor));
  }
  GaussianProcess process = TRY(GaussianProcess::fit(std::move(points), values, record.kernel));
  return ConvergenceProfile(std::move(record), std::move(process));
}

Result<ConvergenceProfile> ConvergenceProfile::parse(std::string_view json,
                                                     const std::string& file) {
  return during(of(TRY(parse_probes(json, file))), "fitting " + file);
}

std::string ConvergenceProfile::text() const { return to_json(write_fields(record_)) + "\n"; }

Belief ConvergenceProfile::log_samples_factor(double density, double batch) const {
  return process_.at(place_of(density, batch));
}

double ConvergenceProfile::samples_factor(double density, double batch) const {
  return std::exp(log_samples_factor(density, batch).mean);
}

double expected_improvement(const Belief& belief, double best) {
  const double deviation = std::sqrt(belief.variance), gain = best - belief.mean;
  if (deviation == 0) return std::max(gain, 0.0);
  const double z = gain / deviation;
  const double below = 0.5 * std::erfc(-z / std::numbers::sqrt2);
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return std::max(gain * below + deviation * density, 0.0);
}

int64_t next_probe(const ConvergenceProfile& profile, double density, Wanted wanted) {
  const ProbeBounds& bounds = profile.record().bounds;
  std::vector<std::pair<int64_t, Belief>> beliefs;
  double best = kInfinity;
  for_batches(bounds, [&](int64_t batch) {
    beliefs.emplace_back(batch, profile.log_samples_factor(density, real(batch)));
    if (wanted == Wanted::kFewSteps) beliefs.back().second.mean -= std::log(real(batch));
    best = std::min(best, beliefs.back().second.mean);
  });
  int64_t most = bounds.batch_min, least_known = bounds.batch_min;
  double improvement = 0, variance = -1;
  for (const auto& [batch, belief] : beliefs) {
    const double here = expected_improvement(belief, best);
    if (here > improvement) std::tie(improvement, most) = std::pair(here, batch);
    if (belief.variance > variance)
      std::tie(variance, least_known) = std::pair(belief.variance, batch);
  }
  return improvement > 0 ? most : least_known;
}

Result<ConvergenceProfile> fit_profile(const ProbeTraining& training, const ProbeBounds& bounds,
                                       int probes, Random random) {
  ProbeRecord record{.bounds = TRY(read_fields<ProbeBounds>(write_fields(bounds), "bounds"))};
  if (probes < 1 || probes > static_cast<int>(kProbesMax)) {
    return unusable(fmt::format("{} probes", probes),
                    fmt::format("1 to {}; StellaTrain: 30", kProbesMax));
  }
  const auto curve_of = [&](double density, int64_t batch, int staleness,
                            double samples) -> Result<LossCurve> {
    const std::string what = fmt::format("training with density {:.4g}, batch {}, staleness {}",
                                         density, batch, staleness);
    LossCurve curve = TRY(during(training.train(density, batch, staleness, samples), what));
    CHECK(!curve.losses.empty(), "{}: no step", what);
    return curve;
  };
  const double tau = training.tau * training.samples;
  const LossCurve reference =
      TRY(curve_of(1, bounds.batch(bounds.batches() / 2), 0, 2 * training.samples));
  if (!has_learnt(reference)) {
    return unusable(
        "the training without compression and staleness does not learn: its last losses "
        "are no lower than its first, or no numbers",
        "a smaller learning rate, or more samples");
  }
  for (int i = 0; i < probes; ++i) {
    const double density = std::pow(bounds.density_min, random.uniform());
    const int64_t batch = i < kDrawnProbes
                              ? bounds.batch(static_cast<int64_t>(
                                    random.below(static_cast<uint64_t>(bounds.batches()))))
                              : next_probe(TRY(ConvergenceProfile::of(record)), density,
                                           i % 2 == 0 ? Wanted::kFewSamples : Wanted::kFewSteps);
    const LossCurve curve = TRY(curve_of(density, batch, 1, training.samples));
    record.probes.push_back({density, batch, 1 / worth_of_a_sample(reference, curve, tau)});
  }
  return ConvergenceProfile::of(std::move(record));
}

}  // namespace tombolo::tune
