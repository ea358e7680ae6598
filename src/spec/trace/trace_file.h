// The Trace file: JSON lines.
//
//   {"tombolo_trace": 1, "provenance": "predicted", ..., "plan": {...}}
//   {"action": "0F0", "lane": "compute", "rank": 0, "start_ns": 0, "end_ns": 1000000, ...}
//   {"action": "0SEND_F0", "lane": "link", "rank": 0, "peer": 1, ..., "bytes": 4194304}
//   {"action": "0REDUCE_GRAD", "lane": "collective", "rank": 0, ..., "bytes": 8388608}
//   {"action": "1NODE3", "lane": "dimension", ..., "name": "chunk 3 REDUCE_SCATTER ring"}
//   {"record": "loss", "iteration": 1, "rank": 1, "at_ns": 5000000, "value": 5.545}
//   {"end": true, "intervals": 2, "records": 1}
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

}  // namespace tombolo::trace
