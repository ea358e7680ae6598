#include "predict/cost/diloco_utilisation.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::cost {
namespace {

Bytes synchronised(const DilocoSteps& of) {
  CHECK(of.parameters > 0 && of.step.value > 0 && of.every >= 1 && of.bits > 0 && of.hidden >= 0,
        "{} parameters of {} bits every {} steps of {} s, {} of one hidden", of.parameters, of.bits,
        of.every, of.step.value, of.hidden);
  return Bytes{of.parameters * of.bits / 8};
}

}  // namespace

double diloco_utilisation(const DilocoSteps& of, BytesPerSecond rate) {
  const Bytes bytes = synchronised(of);
  CHECK(rate.value > 0, "a rate of {} B/s", rate.value);
  const Seconds computed = real(of.every) * of.step;
  const Seconds waited = std::max(Seconds{}, bytes / rate - of.hidden * of.step);
  return computed / (computed + waited);
}

BytesPerSecond diloco_rate(const DilocoSteps& of, double utilisation) {
  const Bytes bytes = synchronised(of);
  CHECK(utilisation > 0 && utilisation < 1, "a utilisation of {}", utilisation);
  const Seconds waited = real(of.every) * of.step * (1 / utilisation - 1);
  return bytes / (waited + of.hidden * of.step);
}

}  // namespace tombolo::cost
