#include "steer/tune/convergence_profile.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>
#include <utility>

#include "base/json.h"

namespace tombolo::tune {
namespace {

constexpr int kDrawnProbes = 4;
constexpr int64_t kBatchesMax = 1025;

// Batches matter by their quotients, from 32 to 64 as much as from 512 to 1024, and so does what is
// sent, from 4 % to 2 % as much as from 100 % to 50 %: down to a thousandth, below which less and
// less.
constexpr double kLittle = 0.001;
Point place_of(double rate, double batch) {
  return {std::log2(1 - rate + kLittle), std::log2(batch)};
}

// The checks of a file, of a record that was made by a program.
Status check(const ProbeRecord& record) {
  const auto again = read_fields<ProbeRecord>(write_fields(record), "profile");
  if (!again) return fail(again.error());
  return {};
}

template <typename F>
void for_batches(const ProbeBounds& bounds, F&& f) {
  const int64_t span = bounds.batch_max - bounds.batch_min;
  const int64_t count = std::min(span + 1, kBatchesMax);
  for (int64_t i = 0; i < count; ++i) {
    const double share = count > 1 ? real(i) / real(count - 1) : 0;
    f(bounds.batch_min + static_cast<int64_t>(std::llround(share * real(span))));
  }
}

}  // namespace

Result<ProbeRecord> parse_probes(std::string_view json, const std::string& file) {
  return read_fields<ProbeRecord>(TRY(parse_json(json, file)), file);
}

Result<ConvergenceProfile> ConvergenceProfile::of(ProbeRecord record) {
  TRY(check(record));
  std::vector<Point> points;
  std::vector<double> values;
  for (const ConvergenceProbe& probe : record.probes) {
    points.push_back(place_of(probe.rate, real(probe.batch)));
    values.push_back(probe.loss_increase);
  }
  GaussianProcess process = TRY(GaussianProcess::fit(std::move(points), values, record.kernel));
  return ConvergenceProfile(std::move(record), std::move(process));
}

Result<ConvergenceProfile> ConvergenceProfile::parse(std::string_view json,
                                                     const std::string& file) {
  return during(of(TRY(parse_probes(json, file))), "fitting " + file);
}

std::string ConvergenceProfile::text() const { return to_json(write_fields(record_)) + "\n"; }

Belief ConvergenceProfile::loss_increase(double rate, double batch) const {
  return process_.at(place_of(rate, batch));
}

double expected_improvement(const Belief& belief, double best) {
  const double deviation = std::sqrt(belief.variance), gain = best - belief.mean;
  if (deviation == 0) return std::max(gain, 0.0);
  const double z = gain / deviation;
  const double below = 0.5 * std::erfc(-z / std::numbers::sqrt2);
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return std::max(gain * below + deviation * density, 0.0);
}

int64_t next_probe(const ConvergenceProfile& profile, double rate) {
  const ProbeBounds& bounds = profile.record().bounds;
  std::vector<std::pair<int64_t, Belief>> beliefs;
  double best = kInfinity;
  for_batches(bounds, [&](int64_t batch) {
    beliefs.emplace_back(batch, profile.loss_increase(rate, real(batch)));
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

Result<ConvergenceProfile> fit_profile(const ProbeTraining& train, const ProbeBounds& bounds,
                                       int probes, Random random) {
  ProbeRecord record{.bounds = TRY(read_fields<ProbeBounds>(write_fields(bounds), "bounds"))};
  if (probes < 1 || probes > static_cast<int>(kProbesMax)) {
    return unusable(fmt::format("{} probes", probes),
                    fmt::format("1 to {}; StellaTrain: 30", kProbesMax));
  }
  const auto loss_of = [&](double rate, int64_t batch, int staleness) -> Result<double> {
    const std::string what =
        fmt::format("probing rate {}, batch {}, staleness {}", rate, batch, staleness);
    const double loss = TRY(during(train(rate, batch, staleness), what));
    if (!std::isfinite(loss) || loss <= 0) {
      return unusable(fmt::format("{}: the loss is {}", what, loss), "a smaller learning rate");
    }
    return loss;
  };
  const double base = TRY(loss_of(0, (bounds.batch_min + bounds.batch_max) / 2, 0));
  const auto batches = static_cast<uint64_t>(bounds.batch_max - bounds.batch_min) + 1;
  for (int i = 0; i < probes; ++i) {
    const double rate = random.uniform() * bounds.rate_max;
    const int64_t batch = i < kDrawnProbes
                              ? bounds.batch_min + static_cast<int64_t>(random.below(batches))
                              : next_probe(TRY(ConvergenceProfile::of(record)), rate);
    const double loss = TRY(loss_of(rate, batch, 1));
    record.probes.push_back({rate, batch, loss / base - 1});
  }
  return ConvergenceProfile::of(std::move(record));
}

}  // namespace tombolo::tune
