#include "steer/tune/loss_curve.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/units.h"

namespace tombolo::tune {

double LossCurve::samples() const { return real(batch) * real(std::ssize(losses)); }

std::vector<double> smoothed(const LossCurve& curve, double tau) {
  CHECK(tau > 0, "a memory of {} samples", tau);
  const double keep = std::exp(-real(curve.batch) / tau);
  std::vector<double> means;
  double sum = 0, weight = 0;
  for (const double loss : curve.losses) {
    sum = keep * sum + loss;
    weight = keep * weight + 1;
    means.push_back(sum / weight);
  }
  return means;
}

double worth_of_a_sample(const LossCurve& reference, const LossCurve& curve, double tau) {
  CHECK(!reference.losses.empty() && !curve.losses.empty(), "{} and {} losses",
        reference.losses.size(), curve.losses.size());
  const double wanted = smoothed(curve, tau).back();
  const std::vector<double> means = smoothed(reference, tau);
  // A curve that left the numbers has come nowhere: any loss is as good as its own.
  const auto reached =
      std::find_if(means.begin(), means.end(), [&](double each) { return !(each > wanted); });
  double steps = real(reached - means.begin()) + 1;
  if (reached == means.end()) {
    steps = real(std::ssize(means));
  } else if (reached != means.begin()) {
    const double before = *std::prev(reached);  // above `wanted`, and hence above *reached
    steps -= (wanted - *reached) / (before - *reached);
  }
  return steps * real(reference.batch) / curve.samples();
}

}  // namespace tombolo::tune
