#include "perform/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace tombolo::generate {
namespace {

// Likeliest first, and no more of them than top_p asks for; all of them, in order, for 1.
std::vector<size_t> nucleus(const std::vector<double>& weights, double sum, double top_p) {
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (top_p >= 1) return order;
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return weights[a] > weights[b]; });
  double reached = 0;
  size_t kept = 0;
  while (kept < order.size() && reached < top_p * sum) reached += weights[order[kept++]];
  order.resize(std::max<size_t>(kept, 1));
  return order;
}

}  // namespace

Result<int64_t> sample(std::span<const float> logits, const Sampling& sampling, Random& random) {
  CHECK(!logits.empty(), "logits of no tokens");
  const auto finite = [](float logit) { return std::isfinite(logit); };
  if (!std::ranges::all_of(logits, finite)) {
    return failed("the model's logits are no finite numbers", "weights that are not damaged");
  }
  const auto best = std::ranges::max_element(logits);
  if (sampling.temperature <= 0) return best - logits.begin();
  std::vector<double> weights(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    weights[i] = std::exp((double{logits[i]} - double{*best}) / sampling.temperature);
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const std::vector<size_t> kept = nucleus(weights, sum, sampling.top_p);
  double total = 0;
  for (const size_t token : kept) total += weights[token];
  double left = random.uniform() * total;
  for (const size_t token : kept) {
    left -= weights[token];
    if (left < 0) return static_cast<int64_t>(token);
  }
  return static_cast<int64_t>(kept.back());  // rounding
}

void skip_sample(const Sampling& sampling, Random& random) {
  if (sampling.temperature > 0) random.uniform();
}

}  // namespace tombolo::generate
