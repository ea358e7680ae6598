// The Trace file: JSON lines.
//
//   {"tombolo_trace": 1, "provenance": "predicted", ..., "plan": {...}}
//   {"action": "0F0", "lane": "compute", "rank": 0, "start_ns": 0, "end_ns": 1000000, ...}
//   {"action": "0SEND_F0", "lane": "link", "rank": 0, "peer": 1, ..., "bytes": 4194304}
//   {"action": "0REDUCE_GRAD", "lane": "collective", "rank": 0, ..., "bytes": 8388608}
//   {"action": "1NODE3", "lane": "dimension", ..., "name": "chunk 3 REDUCE_SCATTER ring"}
//   {"record": "loss", "iteration": 1, "rank": 1, "at_ns": 5000000, "value": 5.545}
//   {"record": "density", ..., "value": 0.01, "reason": "the line carries 4.04 Mbps: ..."}
//   {"end": true, "intervals": 4, "records": 2}
//
// A file without its last line is refused as truncated. Equal Traces give equal bytes.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "spec/trace/trace.h"

namespace tombolo::trace {

inline constexpr int kTraceVersion = 1;

std::string to_json_lines(const Trace& trace);
Result<Trace> parse_trace(std::string_view text, const std::string& name);

Status write_trace(const std::string& path, const Trace& trace);
Result<Trace> read_trace(const std::string& path);

// Traces for https://ui.perfetto.dev and chrome://tracing: the Chrome trace event format.
//
// One process per rank, named by its datacenter, stage and device; in it one thread for compute and
// one per peer it sends to; of nodes of a graph, one for each lane. More where bars would
// overlap, as messages of a WAN link do: Perfetto drops a bar that overlaps another one. Arrows lead from a message to the computation that consumes it. Times are microseconds
// with nanoseconds as decimals. Records become counters, and the reason of one an instant of its rank. Format:
// "Trace Event Format" (Duflot et al., 2016).
std::string to_perfetto(const Trace& trace);

// Intervals as CSV, for spreadsheets and data frames: a header row, then a row per interval.
//
//   provenance,iteration,lane,rank,peer,stage,kind,microbatch,start_ns,end_ns,bytes
//
// Empty cells: no peer (compute) and no microbatch. Where there are nodes of a graph, a last
// column "name", in quotes.
std::string to_csv(const Trace& trace);

}  // namespace tombolo::trace
