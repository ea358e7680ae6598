// What `tombolo astra` tells of a run beside ASTRA-sim's lines: exposed time, use of the network,
// and the Trace.
#pragma once

#include <string>

#include "base/value.h"
#include "cli/astra_command.h"
#include "sim/astra_ledger.h"
#include "sim/astra_recorder.h"
#include "sim/astra_run.h"
#include "trace/trace.h"

namespace tombolo::cli {

// Keys "exposed", "dimensions" and "bytes_sent"; with per_npu also "per_npu_exposed".
void add_figures(Value::Table& json, const sim::AstraLedger& ledger, bool per_npu);

// Two tables for people.
std::string figures_text(const sim::AstraLedger& ledger);

// With the header filled in.
trace::Trace make_trace(const AstraCommandOptions& options, const sim::AstraAnswer& answer,
                        const sim::AstraLedger& ledger, sim::AstraRecorder& recorder);

}  // namespace tombolo::cli
