#include "steer/prefill/gap_admission.h"

#include "base/check.h"
#include "steer/prefill/prefill_controller.h"

namespace tombolo::prefill {

std::optional<SimTime> end_of_passes(const RankWindows& windows, const DurationTable& times,
                                     int64_t layers, const std::vector<int64_t>& passes,
                                     SimDuration within, SimTime now) {
  const std::optional<SimTime> begin = windows.period_begin();
  CHECK(begin && layers > 0 && !passes.empty(), "{} passes of {} layers", passes.size(), layers);
  // Keys and values stay here.
  PrefillController controller(
      {.period = windows.plan().period,
       .busy = {busy_of(windows.plan())},
       .pipelines = {{.stages = {{.gpu = 0, .layers = layers}}, .datacenter = 0, .table = 0}},
       .tables = {times},
       .lines = {{{.rate = BytesPerSecond{1}, .latency = Seconds{0}}}},
       .kv_per_token_and_layer = Bytes{0},
       .within = within,
       .guard = windows.guard()});
  controller.shift(0, *begin - SimTime{}, windows.guard(), now);
  SimTime at = now;
  for (size_t i = 0; i < passes.size(); ++i) {
    const Admission answer =
        controller.submit({.id = static_cast<int64_t>(i), .arrival = at, .tokens = passes[i]}, at);
    if (answer.verdict != Verdict::kPlaced) return std::nullopt;
    at = answer.placement.first_token;
  }
  if (at > now + within) return std::nullopt;
  return at;
}

}  // namespace tombolo::prefill
