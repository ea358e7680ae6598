// The report: one HTML file that shows what was predicted, what happened, and what both started
// from. It opens from disk, needs no network, and carries everything it shows.
//
// Everything a person reads is a Trace's own words or a number computed here; the scripts in
// assets/ only draw. Equal Traces and title give equal bytes.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "spec/trace/trace.h"

namespace tombolo::report {

struct Options {
  std::string title;  // left out: the name of the job
};

// From one Trace, or two of one Plan; a prediction comes first, whatever their order. Unusable
// where there is nothing to show: no Trace or more than two, or one without iterations.
// Cost: O(n log n) for n intervals. The page stays under about 5 MB (timeline.h says what is left
// out).
Result<std::string> render_html(const Options& options, std::span<const trace::Trace> traces);

}  // namespace tombolo::report
