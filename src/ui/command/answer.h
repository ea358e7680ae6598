// How commands answer: one JSON document, or lines for people.
#pragma once

#include <ostream>
#include <string>

#include "base/units.h"
#include "base/value.h"
#include "spec/trace/trace.h"

namespace tombolo::command {

void print_json(std::ostream& out, const Value::Table& answer);

// "+3.1 %".
std::string percent(double fraction);

// "predicted iteration: 41.3 ms (stage times: profile)". The provenance stands on every figure.
std::string iteration_line(trace::Provenance provenance, Seconds iteration,
                           const std::string& note);

// "; bytes divided by 64" for a note next to an emulated figure; empty if they are not divided.
std::string scale_note(const trace::Header& header);

}  // namespace tombolo::command
