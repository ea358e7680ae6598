#include "predict/strand/gain_spread.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"
#include "base/quantiles.h"
#include "base/random.h"
#include "predict/strand/co_run.h"

namespace tombolo::strand {
namespace {

constexpr size_t kKinds = static_cast<size_t>(Kind::kExpert) + 1;
constexpr double kFactorMin = 0.1;  // no error makes an operator ten times as fast
constexpr double kPaceMin = 0.05;

// One draw of what times and paces may really be.
StrandPair disturbed(const StrandPair& pair, const Uncertainty& uncertainty, Random& random) {
  std::array<double, kKinds> times;
  std::array<double, kKinds * kKinds> paces;
  for (double& each : times) each = random.normal();
  for (double& each : paces) each = random.normal();
  const auto kind = [&](size_t op) { return static_cast<size_t>(pair[op].kind); };
  StrandPair out = pair;
  for (size_t op = 0; op < pair.size(); ++op) {
    const double own = random.normal();
    const double measured = op < uncertainty.measured.size() ? uncertainty.measured[op] : 0;
    const double error = measured > 0 ? measured * own : uncertainty.law * times[kind(op)];
    out.set_seconds(op, pair[op].seconds * std::max(kFactorMin, 1 + error));
  }
  for (size_t a = 0; a < pair.size(); ++a) {
    for (size_t b = a + 1; b < pair.size(); ++b) {
      const double error = pair.pace_error(a, b);
      if (error == 0) continue;
      const size_t low = std::min(kind(a), kind(b)), high = std::max(kind(a), kind(b));
      const double factor = 1 + error * paces[low * kKinds + high];
      out.set_pace(a, b,
                   {std::clamp(pair.pace(a, b) * factor, kPaceMin, 1.0),
                    std::clamp(pair.pace(b, a) * factor, kPaceMin, 1.0), error});
    }
  }
  return out;
}

}  // namespace

double sequential_seconds(const StrandPair& pair) {
  return strand_seconds(pair, true) + strand_seconds(pair, false);
}

GainSpread gain_spread(const StrandPair& pair, const Uncertainty& uncertainty,
                       const std::function<double(const StrandPair&)>& seconds_of) {
  CHECK(uncertainty.draws > 0, "a gain from {} draws", uncertainty.draws);
  Random random = Random(uncertainty.seed).stream("strand/gain");
  std::vector<double> gains;
  for (int draw = 0; draw < uncertainty.draws; ++draw) {
    const StrandPair other = disturbed(pair, uncertainty, random);
    gains.push_back(sequential_seconds(other) / seconds_of(other));
  }
  return {.expected =
              std::accumulate(gains.begin(), gains.end(), 0.0) / static_cast<double>(gains.size()),
          .low = quantile(gains, 0.05),
          .high = quantile(gains, 0.95)};
}

}  // namespace tombolo::strand
