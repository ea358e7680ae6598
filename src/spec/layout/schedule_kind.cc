#include "spec/layout/schedule_kind.h"

#include <algorithm>
#include <iterator>

namespace tombolo::layout {

Result<ScheduleKind> find_schedule(std::string_view name) {
  if (const std::optional<ScheduleKind> kind = from_name<ScheduleKind>(name)) return *kind;
  std::string known;
  for (const ScheduleTraits& row : kSchedules) {
    known += fmt::format("{}\"{}\"", known.empty() ? "" : " or ", row.name);
  }
  return unusable(fmt::format("schedule = \"{}\": there is no such schedule yet", name), known);
}

std::vector<ScheduleTraits> schedules_with(ScheduleTrait trait) {
  std::vector<ScheduleTraits> rows;
  std::copy_if(kSchedules.rbegin(), kSchedules.rend(), std::back_inserter(rows),
               [&](const ScheduleTraits& row) { return row.has(trait); });
  return rows;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleTraits& row : kSchedules) names.emplace_back(row.name);
  return names;
}

}  // namespace tombolo::layout
