#include "perform/update/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tombolo::update {
namespace {

// The iteration after which the rate goes down.
int64_t decay_begins(const plan::Optimizer& optimizer, int64_t steps) {
  if (optimizer.rule_in_use() != plan::RateRule::kWsd) return optimizer.warmup_steps;
  const int64_t decay = optimizer.decay_steps.value_or(std::max<int64_t>(steps / 10, 1));
  return std::max(steps - decay, optimizer.warmup_steps);
}

}  // namespace

double learning_rate(const plan::Optimizer& optimizer, int64_t steps, int64_t iteration) {
  const auto now = static_cast<double>(iteration);
  const auto warmup = static_cast<double>(optimizer.warmup_steps);
  if (iteration <= optimizer.warmup_steps) return optimizer.learning_rate * now / warmup;
  if (optimizer.rule_in_use() == plan::RateRule::kConstant) return optimizer.learning_rate;
  if (iteration >= steps) return optimizer.learning_rate_min;
  const int64_t begin = decay_begins(optimizer, steps);
  if (iteration <= begin) return optimizer.learning_rate;
  const auto first = static_cast<double>(begin);
  const double done = (now - first) / (static_cast<double>(steps) - first);
  const double range = optimizer.learning_rate - optimizer.learning_rate_min;
  const double left = optimizer.rule_in_use() == plan::RateRule::kCosine
                          ? 0.5 * (1 + std::cos(std::numbers::pi * done))
                          : 1 - done;
  return optimizer.learning_rate_min + range * left;
}

}  // namespace tombolo::update
