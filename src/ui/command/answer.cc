#include "ui/command/answer.h"

#include <fmt/format.h>

#include "base/json.h"

namespace tombolo::command {

void print_json(std::ostream& out, const Value::Table& answer) {
  out << to_json(Value(answer)) << "\n";
}

std::string percent(double fraction) { return fmt::format("{:+.1f} %", 100 * fraction); }

std::string iteration_line(trace::Provenance provenance, Seconds iteration,
                           const std::string& note) {
  return fmt::format("{:<9} iteration: {}{}\n", to_name(provenance), brief(iteration),
                     note.empty() ? "" : " (" + note + ")");
}

std::string scale_note(const trace::Header& header) {
  return header.byte_scale == 1 ? "" : fmt::format("; bytes divided by {:g}", header.byte_scale);
}

}  // namespace tombolo::command
