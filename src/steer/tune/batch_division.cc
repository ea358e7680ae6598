#include "steer/tune/batch_division.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <utility>

#include "base/check.h"

namespace tombolo::tune {

std::vector<int64_t> divide_by_pace(std::span<const Pace> paces, int64_t microbatches,
                                    int64_t least) {
  CHECK(least >= 1, "at least {} microbatches", least);
  if (least > 1) {
    std::vector<Pace> beyond;
    for (const Pace& pace : paces) beyond.push_back({pace.of(least), pace.next});
    std::vector<int64_t> out =
        divide_by_pace(beyond, microbatches - std::ssize(paces) * (least - 1));
    for (int64_t& each : out) each += least - 1;
    return out;
  }
  CHECK(!paces.empty() && microbatches >= std::ssize(paces), "{} microbatches for {} pipelines",
        microbatches, paces.size());
  const auto next_of = [&](size_t i) { return std::max(paces[i].next.value, 1e-12); };
  const auto within = [&](size_t i, double time) {
    const double more = std::floor(std::max(0.0, time - paces[i].first.value) / next_of(i));
    return 1 + static_cast<int64_t>(std::min(more, static_cast<double>(microbatches)));
  };
  const auto all_within = [&](double time) {
    int64_t sum = 0;
    for (size_t i = 0; i < paces.size(); ++i) sum += within(i, time);
    return sum;
  };
  // The longest time within which they do no more than there are, by halving.
  constexpr double kLongest = 9e9;  // seconds; what takes longer is refused when it is scheduled
  double enough = 0, too_long = 1e-9;
  while (too_long < kLongest && all_within(too_long) <= microbatches) too_long *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = enough + (too_long - enough) / 2;
    (all_within(middle) <= microbatches ? enough : too_long) = middle;
  }
  std::vector<int64_t> each(paces.size());
  for (size_t i = 0; i < paces.size(); ++i) each[i] = within(i, enough);
  // What is left, to the pipeline that would end first with one more.
  using End = std::pair<double, size_t>;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  const auto add = [&](size_t i) {
    ends.emplace(paces[i].first.value + static_cast<double>(each[i]) * next_of(i), i);
  };
  for (size_t i = 0; i < paces.size(); ++i) add(i);
  for (int64_t left = microbatches - std::accumulate(each.begin(), each.end(), int64_t{0});
       left > 0; --left) {
    const size_t i = ends.top().second;
    ends.pop();
    ++each[i];
    add(i);
  }
  return each;
}

}  // namespace tombolo::tune
