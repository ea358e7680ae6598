// Traces for https://ui.perfetto.dev and chrome://tracing: the Chrome trace event format.
//
// One process per rank, named by its datacenter, stage and device; in it one thread for compute and
// one per peer it sends to. Of nodes of a graph: one for each lane, and more where its bars
// overlap. Arrows lead from a message to the computation that consumes it. Times are microseconds
// with nanoseconds as decimals. Records with a value become counters. Format: "Trace Event Format"
// (Duflot et al., 2016).
#pragma once

#include <string>

#include "spec/trace/trace.h"

namespace tombolo::trace {

std::string to_perfetto(const Trace& trace);

}  // namespace tombolo::trace
