// The report: one HTML file that shows what was predicted, what happened, and what both started
// from. It opens from disk, needs no network, and carries everything it shows.
//
// Everything a person reads is a Trace's own words or a number computed here; the scripts in
// assets/ only draw. Equal Traces and title give equal bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "spec/plan/plan.h"
#include "spec/trace/trace.h"
#include "ui/report/timeline.h"

namespace tombolo::report {

// Figures that commands give in addition to an iteration's time, and that the page shows in cards. Commands
// compute them, as the page knows no laws (predict/cost/worth.h). What is not known is shown as "–".
struct Figures {
  std::optional<double> tokens_per_s;
  std::optional<double> mfu;
  std::optional<Dollars> cost;  // of an iteration
  int64_t devices = 0;
  // Of the device that needs the most: predicted, whatever the Trace is.
  std::optional<Bytes> memory_peak;
  Bytes memory;  // that it has
  int32_t memory_rank = 0;
};

struct Options {
  std::string title;  // left out: the name of the job
  // One per Trace, in their order, or none at all.
  std::vector<std::optional<Figures>> figures = {};
  size_t timeline_bytes = kTimelineBytes;  // of each Trace
};

// The Plan that a Trace contains; none for a run of graphs.
Result<std::optional<plan::Plan>> plan_of(const trace::Trace& trace);

// From one Trace, or two of one Plan; a prediction comes first, whatever their order. Unusable
// where there is nothing to show: no Trace or more than two, or one without iterations.
// Cost: O(n log n) for n intervals. The page stays under 30 MB (timeline.h says what is left out), and
// under about 5 MB where an iteration has no more than 100,000 intervals.
Result<std::string> render_html(const Options& options, std::span<const trace::Trace> traces);

}  // namespace tombolo::report
