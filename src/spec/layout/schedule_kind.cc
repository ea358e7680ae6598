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

ChunkRefusal why_not_chunks(ScheduleKind kind, int64_t chunks) {
  const StageMapping mapping = mapping_of(kind);
  if (takes_chunks(mapping, chunks)) return {};
  const std::string schedule = fmt::format("schedule = \"{}\" ", name_of(kind));
  switch (mapping) {
    case StageMapping::kLine:
      return {schedule + "has one stage per rank",
              fmt::format("virtual_stages = 1, or schedule = \"{}\"",
                          name_of(first_schedule(StageMapping::kLoop)))};
    case StageMapping::kLoop:
      return {schedule + "interleaves the stages of a rank",
              fmt::format("virtual_stages = 2, or schedule = \"{}\"",
                          name_of(default_schedule(chunks)))};
    case StageMapping::kFold:
      return {schedule + "folds the model once", "virtual_stages = 2"};
  }
  return {};
}

}  // namespace tombolo::layout
