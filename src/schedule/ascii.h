// A timed schedule as text: a row per rank, a column per slot of time.
//
//   oregon  0 |0123abcd   |      forward of micro-batch 0-9: digits
//   paris   1 | 0a1b...                   backward: a-j, recompute: A-J (of micro-batch mod 10),
//                                         backward in halves: k-t inputs, K-T weights
//
// Of several pipelines each is drawn by itself under its number, stage below stage, so that its
// stairs are seen; the rows then name the stage, too. '+' is the sum of gradients.
//
// Where all intervals begin and end on a common grid that fits the width, a column is one step of
// the grid and the drawing is exact; otherwise a column shows what takes most of its slot.
#pragma once

#include <string>

#include "trace/trace.h"

namespace tombolo::schedule {

struct AsciiOptions {
  int width = 100;        // columns for time; at least 10
  int64_t iteration = 1;  // which one to draw
};

// The drawing and a legend, with line feeds. "" where the trace has no such iteration.
std::string draw_ascii(const trace::Trace& trace, const AsciiOptions& options = {});

}  // namespace tombolo::schedule
