#include "ui/decide_commands/with_strands.h"

#include <cmath>

namespace tombolo::decide_commands {

void print_strands(std::ostream& out, const WithStrands& with,
                   const std::optional<Seconds>& simulated) {
  if (!with.offer.layer) {
    out << fmt::format("  without strands: {}\n", with.offer.why_not);
  } else if (!with.iteration) {
    out << fmt::format("  with strands: {}\n", with.obstacle);
  } else {
    const double less_by = simulated && *simulated > 0_s ? 1 - *with.iteration / *simulated : 0;
    const std::string less = less_by == 0 ? ""
                                          : fmt::format(", {:.1f} % {}", 100 * std::abs(less_by),
                                                        less_by > 0 ? "less" : "more");
    const std::string without = with.one_after_the_other > 0_s
                                    ? fmt::format(" ({} without)", brief(with.one_after_the_other))
                                    : "";
    out << fmt::format(
        "  with strands: {} simulated{}, schedule {} with overlapped F&B{}, {} at the peak\n",
        brief(*with.iteration), less, with.schedule, without, brief(with.peak_memory));
  }
}

Value strands_json(const WithStrands& with) {
  if (!with.offer.layer) return Value::Table{{"why_not", with.offer.why_not}};
  Value::Table json{{"together_s", with.offer.layer->together.value},
                    {"apart_s", with.offer.layer->apart.value},
                    {"gain", with.offer.gain.expected},
                    {"gain_low", with.offer.gain.low}};
  if (!with.iteration) {
    json.emplace_back("obstacle", with.obstacle);
    return json;
  }
  json.emplace_back("schedule", with.schedule);
  json.emplace_back("simulated_s", with.iteration->value);
  if (with.one_after_the_other > 0_s) {
    json.emplace_back("without_pairs_s", with.one_after_the_other.value);
  }
  json.emplace_back("memory_bytes", with.peak_memory.value);
  return json;
}

}  // namespace tombolo::decide_commands
