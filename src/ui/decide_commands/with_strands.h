// What `tombolo plan` says of strands: the best parallelism once more, with forwards and backwards
// co-executed, or why not.
#pragma once

#include <optional>
#include <ostream>

#include "base/value.h"
#include "decide/schedule_search/strands_choice.h"

namespace tombolo::decide_commands {

using schedule_search::WithStrands;

// `simulated`: the job as it is.
void print_strands(std::ostream& out, const WithStrands& with,
                   const std::optional<Seconds>& simulated);
Value strands_json(const WithStrands& with);

}  // namespace tombolo::decide_commands
