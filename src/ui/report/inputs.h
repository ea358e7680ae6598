// What a run started from, for people: the Plan as tables of short texts.
#pragma once

#include "base/value.h"
#include "spec/plan/plan.h"

namespace tombolo::report {

// {"summary", "replicas", "facts": [{"title", "rows": [[key, text], ...]}, ...],
//  "stages": [{"stage", "ranks", "layers", ...}], "links": [{"between", ...}], "json": "..."}
Value plan_tables(const plan::Plan& plan);

// Where stage durations come from, as a sentence: it stands beside every predicted figure.
const char* explain(plan::CostSource source);

}  // namespace tombolo::report
