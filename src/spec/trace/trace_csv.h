// Intervals as CSV, for spreadsheets and data frames: a header row, then a row per interval.
#pragma once

#include <string>

#include "spec/trace/trace.h"

namespace tombolo::trace {

// provenance,iteration,lane,rank,peer,stage,kind,microbatch,start_ns,end_ns,bytes
// Empty cells: no peer (compute) and no micro-batch. Where there are nodes of a graph, a last
// column "name", in quotes.
std::string to_csv(const Trace& trace);

}  // namespace tombolo::trace
