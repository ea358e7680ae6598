// The numbers of the page that are not drawn from intervals one by one. The laws are those of
// trace/breakdown.h and trace/compare.h; here they are taken over the iterations that count.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/value.h"
#include "spec/plan/plan.h"
#include "spec/trace/trace.h"

namespace tombolo::report {

// {"median_ns", "min_ns", "max_ns", "iterations", "warmup"}.
Value iteration_summary(const trace::Trace& trace);

// [{"rank", "compute_ns", "exposed_communication_ns", "idle_ns"}, ...]: means over iterations.
Value breakdown_rows(const trace::Trace& trace);

// Records that say how busy the machine was, as an emulated run on too few cores means nothing:
// names that begin with "machine_".
bool is_about_machine(std::string_view name);

// [{"name": "busy_share", "mean", "max"}, ...] over all ranks and iterations, in order of names.
Value machine_load(const trace::Trace& trace);

// {"finish_ns", "inputs": [[what, text], ...], "exposed": [{"label", "compute_ns", ...}, ...],
//  "dimensions": [{"label", "bytes", ...}, ...], "left_out": [...]}, null where there is no graph.
Value graph_run(const trace::Trace& trace);

// {"same_work", "error", "rows": [{"kind", "stage", "first_ns", "second_ns", "error"}, ...]}.
// Errors are (first - second) / second: negative where the first, the prediction, was too short.
// What one side does not have is null. `same_work` is false for Plans that divide other work.
Result<Value> comparison(const trace::Trace& first, const trace::Trace& second);

// What a run started from, for people: the Plan as tables of short texts.
// {"summary", "replicas", "facts": [{"title", "rows": [[key, text], ...]}, ...],
//  "stages": [{"stage", "ranks", "layers", ...}], "links": [{"between", ...}], "json": "..."}
Value plan_tables(const plan::Plan& plan);

// Where stage durations come from, as a sentence: shown next to every predicted figure.
const char* explain(plan::CostSource source);

}  // namespace tombolo::report
