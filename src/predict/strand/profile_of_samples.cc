#include "predict/strand/profile_of_samples.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/quantiles.h"

namespace tombolo::strand {
namespace {

constexpr double kOutside = 0.05;          // of medians, outside of their interval
constexpr double kQuartilesApart = 1.349;  // of a normal distribution, in standard deviations

// How many of `count` values lie below the interval of their median.
size_t outside_of(size_t count) {
  double chance = std::pow(0.5, static_cast<double>(count)), sum = chance;  // of 0 heads
  size_t below = 0;
  while (2 * sum <= kOutside) {
    ++below;
    chance *= static_cast<double>(count - below + 1) / static_cast<double>(below);
    sum += chance;
  }
  return below > 0 ? below - 1 : 0;
}

double spread_of(const std::vector<double>& values) {
  const double middle = median(values);
  if (middle == 0) return 0;
  return (quantile(values, 0.75) - quantile(values, 0.25)) / kQuartilesApart / std::abs(middle);
}

// More digits than are measured. Above kSpreadMax, as where a machine is busy, nothing is known.
double to_file(double spread) { return std::min(std::round(spread * 1e4) / 1e4, kSpreadMax); }

std::vector<double> microseconds(const std::vector<int64_t>& ns) {
  std::vector<double> out;
  for (const int64_t each : ns) out.push_back(static_cast<double>(each) / 1000);
  return out;
}

// What was measured of one operator, alone.
struct Alone {
  std::vector<double> first, again;
  std::string kind;

  std::vector<double> all() const {
    std::vector<double> out = first;
    out.insert(out.end(), again.begin(), again.end());
    return out;
  }
};
using AloneByName = std::map<std::string, Alone, std::less<>>;

Result<const Alone*> find(const AloneByName& alone, const std::string& name, size_t repeats) {
  const auto found = alone.find(name);
  if (found == alone.end())
    return unusable(fmt::format("\"{}\" was measured in a pair and not alone", name));
  if (found->second.first.size() != repeats) {
    return unusable(fmt::format("\"{}\" was measured {} times alone and {} times in a pair", name,
                                found->second.first.size(), repeats));
  }
  return &found->second;
}

Result<MeasuredPair> pair_of(const plan::PairSamples& samples, const AloneByName& alone) {
  const size_t repeats = samples.first_ns.size();
  const Alone& first = *TRY(find(alone, samples.first, repeats));
  const Alone& second = *TRY(find(alone, samples.second, repeats));
  const std::vector<double> a = microseconds(samples.first_ns), b = microseconds(samples.second_ns);
  std::vector<double> apart, beside, saved, null;
  for (size_t i = 0; i < repeats; ++i) {
    const double once = first.first[i] + second.first[i];
    const double twice = first.again[i] + second.again[i];
    apart.push_back((once + twice) / 2);
    beside.push_back(std::max(a[i], b[i]));
    saved.push_back(apart.back() - beside.back());
    null.push_back(once - twice);
  }
  return MeasuredPair{.first = samples.first,
                      .second = samples.second,
                      .first_class = first.kind,
                      .second_class = second.kind,
                      .times = {.first = median(first.all()),
                                .second = median(second.all()),
                                .first_beside = median(a),
                                .second_beside = median(b)},
                      .apart = median(apart),
                      .beside = median(beside),
                      .saved = measured(saved),
                      .null = measured(null),
                      .spread = std::max({spread_of(first.all()), spread_of(second.all()),
                                          spread_of(a), spread_of(b)})};
}

}  // namespace

Measured measured(std::vector<double> values) {
  CHECK(!values.empty(), "a median of nothing");
  const size_t outside = outside_of(values.size());
  std::ranges::sort(values);
  return {.median = median(values),
          .low = values[outside],
          .high = values[values.size() - 1 - outside],
          .spread = spread_of(values)};
}

double MeasuredPair::null_most() const { return std::max(std::abs(null.low), std::abs(null.high)); }

bool MeasuredPair::measurable() const {
  return std::abs(saved.median) > null_most() && (saved.low > 0 || saved.high < 0);
}

Result<MeasuredOverlap> measured_overlap(const plan::OverlapSamples& samples, const Dag& forward,
                                         const Dag& backward) {
  std::map<std::string, std::string, std::less<>> kinds;
  for (const Dag* dag : {&forward, &backward})
    for (const Operator& op : dag->operators()) kinds.emplace(op.name, class_of(op));
  MeasuredOverlap out;
  AloneByName alone;
  for (const plan::OperatorSamples& each : samples.operators) {
    const auto kind = kinds.find(each.name);
    if (kind == kinds.end())
      return unusable(fmt::format("\"{}\" is no operator of these strands", each.name));
    Alone& of = alone[each.name] = {.first = microseconds(each.alone_ns),
                                    .again = microseconds(each.again_ns),
                                    .kind = kind->second};
    out.operators.push_back({.name = each.name, .kind = of.kind, .alone = measured(of.all())});
    out.repeats = std::ssize(each.alone_ns);
  }
  for (const plan::PairSamples& each : samples.pairs)
    out.pairs.push_back(TRY(pair_of(each, alone)));
  return out;
}

Profile MeasuredOverlap::profile() const {
  Profile out;
  for (const MeasuredOperator& each : operators) {
    out.rows.push_back({.first = each.name,
                        .microseconds = {.first = each.alone.median},
                        .repeats = 2 * repeats,
                        .spread = to_file(each.alone.spread)});
  }
  for (const MeasuredPair& each : pairs) {
    if (!each.measurable()) continue;
    out.rows.push_back({.first = each.first_class,
                        .second = each.second_class,
                        .microseconds = each.times,
                        .repeats = repeats,
                        .spread = to_file(each.spread)});
  }
  return out;
}

}  // namespace tombolo::strand
