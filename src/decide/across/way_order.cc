#include "decide/across/way_order.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace tombolo::across {

double score(const Way& way, search::Objective objective) {
  switch (objective) {
    case search::Objective::kCost:
      return way.cost ? way.cost_per_step()->value : INFINITY;
    case search::Objective::kThroughput:
    case search::Objective::kTime:
      return way.time_per_step().value;
  }
  return INFINITY;
}

bool is_within(const Way& way, const WayLimits& limits) {
  const double cost = score(way, search::Objective::kCost);
  return (!limits.time_per_step || way.time_per_step() <= *limits.time_per_step) &&
         (!limits.cost_per_step || cost <= limits.cost_per_step->value);
}

double other_score(const Way& way, search::Objective objective) {
  return score(way, objective == search::Objective::kCost ? search::Objective::kTime
                                                          : search::Objective::kCost);
}

void put_in_order(std::vector<Way>& ways, search::Objective objective) {
  const auto by = [](const auto& key) {
    return [key](const Way& a, const Way& b) { return key(a) < key(b); };
  };
  std::sort(ways.begin(), ways.end(), by([&](const Way& way) {
              return std::tuple(!way.within, score(way, objective), other_score(way, objective),
                                way.across.value, way.devices, way.name, way.layout);
            }));
  for (auto first = ways.begin(); first != ways.end();) {
    const double most = score(*first, objective) * (1 + kTie);
    const auto end = std::find_if(first, ways.end(), [&](const Way& way) {
      return way.within != first->within || score(way, objective) > most;
    });
    std::stable_sort(first, end, by([&](const Way& way) { return other_score(way, objective); }));
    first = end;
  }
}

void mark_front(std::vector<Way>& ways) {
  const auto key = [](const Way& way) {
    return std::pair(score(way, search::Objective::kTime), score(way, search::Objective::kCost));
  };
  for (Way& way : ways) {
    way.on_front =
        way.within && std::none_of(ways.begin(), ways.end(), [&](const Way& other) {
          const auto [time, cost] = key(other);
          const auto [own_time, own_cost] = key(way);
          return time <= own_time && cost <= own_cost && (time < own_time || cost < own_cost);
        });
  }
}

}  // namespace tombolo::across
