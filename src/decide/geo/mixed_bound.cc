#include "decide/geo/mixed_bound.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "base/units.h"

namespace tombolo::geo {
namespace {

double fastest(std::span<const StageRoom> rooms) {
  double layer = kInfinity;
  for (const StageRoom& room : rooms) layer = std::min(layer, room.layer);
  return layer;
}

// The shortest sum of passes of all layers where no stage is busy longer than `period`.
double passes_bound(std::span<const StageRoom> rooms, double layers, double period) {
  double left = layers, sum = 0, last = 0;
  double slower_than = -1;
  while (left > 0) {
    // The next slower rate, with all stages that have it.
    double layer = kInfinity, stages = 0;
    for (const StageRoom& room : rooms) {
      if (room.layer > slower_than) layer = std::min(layer, room.layer);
    }
    if (layer == kInfinity) break;
    for (const StageRoom& room : rooms) {
      if (room.layer == layer) stages += real(room.stages);
    }
    const double taken = std::min(left, stages * period / layer);
    sum += taken * layer;
    left -= taken;
    slower_than = last = layer;
  }
  return sum + std::max(0.0, left) * last;  // left: rounding only
}

}  // namespace

double period_bound(std::span<const StageRoom> rooms, const PipelineNeeds& needs) {
  CHECK(needs.layers >= 1 && needs.microbatches >= 1, "{} layers and {} microbatches", needs.layers,
        needs.microbatches);
  int64_t stages = 0;
  double per_second = 0;
  for (const StageRoom& room : rooms) {
    stages += room.stages;
    per_second += real(room.stages) / room.layer;
  }
  if (stages == 0) return kInfinity;
  const double work = fastest(rooms) * real(needs.layers) + needs.exposed;
  double period = std::max({needs.period_min, real(needs.layers) / per_second,
                            work / real(std::min(stages, needs.layers))});
  // Up to the next period at which some stage can take one more whole layer, until all fit.
  while (true) {
    double held = 0, next = kInfinity;
    for (const StageRoom& room : rooms) {
      const double each = std::floor(period / room.layer * (1 + kRounding));
      held += std::min(each, real(room.holds)) * real(room.stages);
      if (room.stages > 0 && each < real(room.holds)) {
        next = std::min(next, (each + 1) * room.layer);
      }
    }
    if (held >= real(needs.layers)) return period;
    if (next == kInfinity) return next;  // memory holds no more
    period = next;
  }
}

double time_bound(std::span<const StageRoom> rooms, const PipelineNeeds& needs) {
  const double shortest = period_bound(rooms, needs);
  if (shortest == kInfinity) return kInfinity;
  const double layers = real(needs.layers), m = real(needs.microbatches - 1);
  double best = passes_bound(rooms, layers, shortest) + m * shortest;
  // Corners: the periods at which the devices up to some speed are just enough for all layers.
  for (const StageRoom& corner : rooms) {
    double per_second = 0;
    for (const StageRoom& room : rooms) {
      if (room.layer <= corner.layer) per_second += real(room.stages) / room.layer;
    }
    if (per_second == 0) continue;
    const double period = layers / per_second;
    if (period <= shortest) continue;
    best = std::min(best, passes_bound(rooms, layers, period) + m * period);
  }
  return best + needs.transfers + needs.end_min;
}

double cost_bound(std::span<const StageRoom> rooms, const PipelineNeeds& needs) {
  const double shortest = period_bound(rooms, needs);
  if (shortest == kInfinity) return kInfinity;
  const double layers = real(needs.layers), m = real(needs.microbatches);
  double decided_rate = 0, decided_per_second = 0, decided_holds = 0;
  double others_rate = 0, others_per_layer = kInfinity, others_busy = kInfinity;
  double all_busy = kInfinity, rate_min = kInfinity;
  for (const StageRoom& room : rooms) {
    if (room.stages == 0) continue;
    const auto stages = real(room.stages);
    all_busy = std::min(all_busy, room.rate * room.layer);
    rate_min = std::min(rate_min, room.rate);
    if (room.decided) {
      decided_rate += stages * room.rate;
      decided_per_second += stages / room.layer;
      decided_holds += stages * real(std::min(room.holds, needs.layers));
    } else {
      if (room.needed) others_rate += room.rate;
      others_per_layer =
          std::min(others_per_layer,
                   room.rate / real(std::max<int64_t>(1, std::min(room.holds, needs.layers))));
      others_busy = std::min(others_busy, room.rate * room.layer);
    }
  }
  // The least that can be held at once.
  const double elsewhere = std::max(0.0, layers - decided_holds);
  if (elsewhere > 0 && others_per_layer < kInfinity) {
    others_rate = std::max(others_rate, elsewhere * others_per_layer);
  }
  const double held = std::max(decided_rate + others_rate, needs.rate);
  const double by_time = time_bound(rooms, needs) * held;

  const double once = (layers * fastest(rooms) + needs.transfers + needs.end_min) * held;
  const double by_work = once + (m - 1) * (layers * all_busy + needs.exposed * rate_min);
  double by_decided = 0;
  if (others_busy < kInfinity) {
    const auto at = [&](double period) {
      const double rest = std::max(0.0, layers - period * decided_per_second);
      return once + (m - 1) * (decided_rate * period + others_busy * rest);
    };
    by_decided = at(shortest);
    if (decided_per_second > 0) {
      by_decided = std::min(by_decided, at(std::max(shortest, layers / decided_per_second)));
    }
  }
  return std::max({by_time, by_work, by_decided}) + needs.egress;
}

}  // namespace tombolo::geo
