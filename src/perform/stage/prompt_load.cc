#include "perform/stage/prompt_load.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::stage {
namespace {

constexpr SimDuration kLateMax{10'000'000};

}  // namespace

PromptLoadFiller::PromptLoadFiller(int64_t layers, SimDuration layer, SimDuration ends,
                                   Clock& clock)
    : layers_(layers), layer_(layer), ends_(ends), clock_(clock) {
  CHECK(layers > 0 && layer.ns > 0 && ends.ns >= 0, "{} layers of {} ns", layers, layer.ns);
}

bool PromptLoadFiller::fill(SimTime until) {
  const SimTime begin = clock_.now();
  const bool last = done_ + 1 == layers_;
  const SimDuration takes = last ? layer_ + ends_ : layer_;
  if (begin + takes > until) return false;
  const SimTime due = begin + takes - std::min(late_, takes);
  clock_.sleep_until(due);
  late_ = std::clamp(clock_.now() - due, SimDuration{0}, kLateMax);
  done_ = last ? 0 : done_ + 1;
  if (last) ++prompts_;
  return true;
}

}  // namespace tombolo::stage
