#include "steer/tune/batch_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "steer/tune/nelder_mead.h"

namespace tombolo::tune {
namespace {

double longest(std::span<const TunedDevice> devices, std::span<const double> batches) {
  CHECK(!devices.empty() && devices.size() == batches.size(), "{} batches of {} devices",
        batches.size(), devices.size());
  double most = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    most = std::max(most, devices[i].throughput.time(batches[i]).value);
  }
  return most;
}

double sum(std::span<const double> batches) {
  return std::accumulate(batches.begin(), batches.end(), 0.0);
}

Status check(const TuningProblem& problem) {
  const auto positive = [](double x) { return std::isfinite(x) && x > 0; };
  if (problem.devices.empty()) return unusable("no devices to choose batches for", "at least one");
  for (size_t i = 0; i < problem.devices.size(); ++i) {
    const TunedDevice& device = problem.devices[i];
    if (!positive(device.throughput.saturation) || !positive(device.throughput.peak) ||
        device.batch_max < 1) {
      return unusable(
          fmt::format("device {}: saturation {}, peak {}, batches up to {}", i,
                      device.throughput.saturation, device.throughput.peak, device.batch_max),
          "all of them must be positive");
    }
  }
  if (!positive(problem.elements) || !positive(problem.bytes_per_element.value) ||
      !positive(problem.bandwidth.value)) {
    return unusable(fmt::format("{} elements of {} B over {} B/s", problem.elements,
                                problem.bytes_per_element.value, problem.bandwidth.value),
                    "all of them must be positive and finite");
  }
  if (!(problem.variation_weight.value >= 0) || !std::isfinite(problem.variation_weight.value)) {
    return unusable(fmt::format("the weight of variation is {} s", problem.variation_weight.value),
                    "0 s or more");
  }
  if (!(problem.rate_max >= 0 && problem.rate_max < 1)) {
    return unusable(fmt::format("rates up to {}", problem.rate_max), "at least 0 and below 1");
  }
  return {};
}

class BatchSearch {
 public:
  BatchSearch(const TuningProblem& problem, const SampleIncrease& increase)
      : problem_(problem), increase_(increase) {}

  std::optional<TunedBatches> best() {
    find_paces();
    for (const std::vector<double>& start : starts()) {
      const std::vector<double> found = simplex(start);
      keep(rounded(found));
    }
    std::vector<std::vector<double>> candidates = kept();
    std::optional<Scored> best;
    for (std::vector<double>& batches : candidates) {
      Scored here = improve(std::move(batches));
      if (!best || here.value < best->value) best = std::move(here);
    }
    if (!best || !std::isfinite(best->value)) return std::nullopt;
    TunedBatches out;
    out.rate = best->rate;
    for (const double batch : best->batches) out.batches.push_back(static_cast<int64_t>(batch));
    out.objective = Seconds{best->value};
    out.iteration = Seconds{longest(problem_.devices, best->batches)};
    out.variation = variation(problem_.devices, best->batches);
    return out;
  }

 private:
  struct Scored {
    std::vector<double> batches;
    double value = kInfinity, rate = 0;
  };
  static constexpr size_t kCandidates = 8;

  double batch_max(size_t i) const { return real(problem_.devices[i].batch_max); }

  double value_at(double rate, std::span<const double> batches) const {
    const double cost = 1 + increase_(rate, sum(batches));
    if (!std::isfinite(cost) || cost <= 0) return kInfinity;
    return cost / samples_per_second(problem_.devices, batches) +
           problem_.variation_weight.value * variation(problem_.devices, batches);
  }

  // The batches at which every device takes this long, or as long as it can.
  std::vector<double> at_pace(double seconds) const {
    std::vector<double> batches;
    for (size_t i = 0; i < problem_.devices.size(); ++i) {
      batches.push_back(
          std::clamp(seconds * problem_.devices[i].throughput.peak, 1.0, batch_max(i)));
    }
    return batches;
  }

  std::vector<std::vector<double>> starts() const {
    double shortest = kInfinity, most = 0;
    for (const TunedDevice& device : problem_.devices) {
      shortest = std::min(shortest, device.throughput.time(1).value);
      most = std::max(most, device.throughput.time(real(device.batch_max)).value);
    }
    std::vector<std::vector<double>> out;
    constexpr int kPaces = 6;
    for (int i = 0; i < kPaces; ++i) {
      std::vector<double> batches =
          at_pace(shortest * std::pow(most / shortest, (i + 1.0) / kPaces));
      for (const double above_floor : {0.0, 0.3}) {
        out.push_back(batches);
        out.back().push_back(above_floor);
      }
    }
    return out;
  }

  // The last coordinate is the rate, from 0 at its floor to 1 at the largest: every point that has
  // one meets the condition.
  std::vector<double> simplex(const std::vector<double>& start) const {
    const size_t n = problem_.devices.size();
    SimplexOptions box{.tolerance = 1e-5, .evaluations_max = 200 * static_cast<int>(n + 1)};
    for (size_t i = 0; i < n; ++i) {
      box.low.push_back(1);
      box.high.push_back(batch_max(i));
    }
    box.low.push_back(0);
    box.high.push_back(1);
    Minimum found = nelder_mead(
        [&](std::span<const double> at) {
          const std::span<const double> batches = at.first(n);
          const double floor = rate_floor(problem_, batches);
          if (floor > problem_.rate_max) return kInfinity;
          return value_at(floor + at[n] * (problem_.rate_max - floor), batches);
        },
        start, box);
    found.at.pop_back();
    return found.at;
  }

  std::vector<double> rounded(std::vector<double> batches) const {
    for (size_t i = 0; i < batches.size(); ++i) {
      batches[i] = std::clamp(std::round(batches[i]), 1.0, batch_max(i));
    }
    return batches;
  }

  // The best rate for these batches: a grid from the floor to the largest, then thirds of the two
  // cells around its best point.
  Scored score(std::vector<double> batches) const {
    Scored out{std::move(batches)};
    const double floor = rate_floor(problem_, out.batches), room = problem_.rate_max - floor;
    if (room < 0) return out;
    constexpr int kCells = 32;
    int best = 0;
    const auto look = [&](double rate) {
      const double value = value_at(rate, out.batches);
      if (value < out.value) out.value = value, out.rate = rate;
      return value;
    };
    double least = kInfinity;
    for (int i = 0; i <= kCells; ++i) {
      const double value = look(floor + room * i / kCells);
      if (value < least) least = value, best = i;
    }
    double low = floor + room * std::max(best - 1, 0) / kCells,
           high = floor + room * std::min(best + 1, kCells) / kCells;
    for (int i = 0; i < 30 && high - low > 1e-9; ++i) {
      const double third = (high - low) / 3;
      if (look(low + third) < look(high - third)) {
        high -= third;
      } else {
        low += third;
      }
    }
    return out;
  }

  void keep(std::vector<double> batches) {
    const double floor = rate_floor(problem_, batches);
    if (floor > problem_.rate_max) return;
    for (const Scored& other : found_) {
      if (other.batches == batches) return;
    }
    constexpr int kCells = 8;
    double value = kInfinity;
    for (int i = 0; i <= kCells; ++i) {
      value = std::min(value, value_at(floor + (problem_.rate_max - floor) * i / kCells, batches));
    }
    found_.push_back({std::move(batches), value, floor});
  }

  // Whole batches that keep the pace of each whole batch of each device.
  void find_paces() {
    constexpr int64_t kEachMax = 256;
    for (const TunedDevice& device : problem_.devices) {
      const int64_t step = (device.batch_max + kEachMax - 1) / kEachMax;
      for (int64_t batch = device.batch_max; batch >= 1; batch -= step) {
        keep(rounded(at_pace(device.throughput.time(real(batch)).value)));
      }
    }
    std::sort(found_.begin(), found_.end(),
              [](const Scored& a, const Scored& b) { return a.value < b.value; });
    if (found_.size() > kCandidates) found_.resize(kCandidates);
  }

  std::vector<std::vector<double>> kept() const {
    std::vector<std::vector<double>> out;
    for (const Scored& scored : found_) out.push_back(scored.batches);
    return out;
  }

  // One sample more or less on a device, or from one device to another, until nothing is better.
  Scored improve(std::vector<double> batches) const {
    Scored best = score(std::move(batches));
    const size_t n = best.batches.size();
    for (bool better = true; better;) {
      better = false;
      Scored next = best;
      // A move that is worse at the rates that lie near is not worth a search for its own.
      const auto hopeless = [&](const std::vector<double>& moved) {
        const double floor = rate_floor(problem_, moved);
        if (floor > problem_.rate_max) return true;
        const double near =
            std::min(value_at(floor, moved), value_at(std::max(floor, best.rate), moved));
        return near > best.value * 1.0005;
      };
      const auto look = [&](std::vector<double> moved) {
        if (hopeless(moved)) return;
        Scored here = score(std::move(moved));
        if (here.value < next.value) next = std::move(here);
      };
      for (size_t i = 0; i < n; ++i) {
        for (const double change : {-1.0, 1.0}) {
          std::vector<double> moved = best.batches;
          moved[i] += change;
          if (moved[i] < 1 || moved[i] > batch_max(i)) continue;
          look(moved);
          for (size_t j = 0; j < n && change > 0; ++j) {
            if (j == i || moved[j] <= 1) continue;
            std::vector<double> both = moved;
            both[j] -= 1;
            look(both);
          }
        }
      }
      better = next.value < best.value;
      best = std::move(next);
    }
    return best;
  }

  const TuningProblem& problem_;
  const SampleIncrease& increase_;
  std::vector<Scored> found_;
};

}  // namespace

int64_t TunedBatches::total() const {
  return std::accumulate(batches.begin(), batches.end(), int64_t{0});
}

double variation(std::span<const TunedDevice> devices, std::span<const double> batches) {
  CHECK(!devices.empty() && devices.size() == batches.size(), "{} batches of {} devices",
        batches.size(), devices.size());
  const auto n = static_cast<double>(devices.size());
  double mean = 0, square = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    mean += devices[i].throughput.time(batches[i]).value / n;
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    const double away = devices[i].throughput.time(batches[i]).value - mean;
    square += away * away / n;
  }
  return std::sqrt(square) / mean;
}

double samples_per_second(std::span<const TunedDevice> devices, std::span<const double> batches) {
  return sum(batches) / longest(devices, batches);
}

double rate_floor(const TuningProblem& problem, std::span<const double> batches) {
  CHECK(!batches.empty() && problem.devices.size() == batches.size(), "{} batches of {} devices",
        batches.size(), problem.devices.size());
  Seconds shortest{kInfinity};
  for (size_t i = 0; i < batches.size(); ++i) {
    shortest = std::min(shortest, problem.devices[i].throughput.time(batches[i]));
  }
  return std::max(0.0, 1 - problem.bandwidth * shortest / problem.gradients());
}

Result<TunedBatches> search_batches(const TuningProblem& problem, const SampleIncrease& increase) {
  TRY(check(problem));
  std::vector<double> largest;
  for (const TunedDevice& device : problem.devices) largest.push_back(real(device.batch_max));
  const double least = rate_floor(problem, largest);
  if (least > problem.rate_max) {
    return infeasible(
        fmt::format("with the largest batches the link of {} allows rates from {:.6f} on, above {}",
                    brief(problem.bandwidth), least, problem.rate_max),
        "larger batches on the fastest device, or a larger rate_max");
  }
  std::optional<TunedBatches> best = BatchSearch(problem, increase).best();
  if (!best) {
    return infeasible("the increase of samples is unknown at every rate and batch",
                      "a profile whose values are finite and above -1");
  }
  return *std::move(best);
}

}  // namespace tombolo::tune
