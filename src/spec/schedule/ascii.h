// A timed schedule as text: a row per rank, a column per slot of time.
//
//   oregon  0 |0123abcd   |      forward of microbatch 0-9: digits
//   paris   1 | 0a1b...                   backward: a-j, recompute: A-J (of microbatch mod 10),
//                                         backward in halves: k-t inputs, K-T weights
//
// Of several pipelines each is drawn separately under its number, stage below stage, so that its
// stairs are seen; the rows then name the stage, too. '+' is the gradient all-reduce.
//
// Links that a DP-cell shares in time get two rows below the ranks: of what they carry, the
// microbatch as in forwards and backwards, and of which pipeline (mod 10). What a transfer shows
// is how long it owns its link; it is there a latency later.
//
//   oregon -> paris |..00112233..|
//       of pipeline |..01010101..|
//
// Where all intervals begin and end on a common grid that fits the width, a column is one step of
// the grid and the drawing is exact; otherwise a column shows what takes most of its slot.
#pragma once

#include <string>

#include "spec/schedule/schedule.h"
#include "spec/trace/trace.h"

namespace tombolo::schedule {

struct AsciiOptions {
  int width = 100;        // columns for time; at least 10
  int64_t iteration = 1;  // which one to draw
  // Left out: ranks alone. Which pipelines share which boundaries; their latencies.
  const PipelineShape* shape = nullptr;
  const Times* times = nullptr;
};

// The drawing and a legend, with line feeds. "" where the trace has no such iteration.
std::string draw_ascii(const trace::Trace& trace, const AsciiOptions& options = {});

}  // namespace tombolo::schedule
