// What `tombolo astra` tells of a run beside ASTRA-sim's lines: exposed time, use of the network,
// and the Trace.
#pragma once

#include <string>

#include "base/value.h"
#include "predict/astra/astra_ledger.h"
#include "predict/astra/astra_recorder.h"
#include "predict/astra/astra_run.h"
#include "spec/trace/trace.h"
#include "ui/predict_commands/astra_command.h"

namespace tombolo::predict_commands {

// Keys "exposed", "dimensions" and "bytes_sent"; with per_npu also "per_npu_exposed".
void add_figures(Value::Table& json, const astra::AstraLedger& ledger, bool per_npu);

// Two tables for people.
std::string figures_text(const astra::AstraLedger& ledger);

// With the header filled in.
trace::Trace make_trace(const AstraCommandOptions& options, const astra::AstraAnswer& answer,
                        const astra::AstraLedger& ledger, astra::AstraRecorder& recorder);

}  // namespace tombolo::predict_commands
