// --report of estimate and fabric: their answers, as --json prints them, as pages.
#pragma once

#include <string>

#include "base/value.h"
#include "spec/plan/job.h"

namespace tombolo::predict_commands {

std::string estimate_page(const Value& answer, const plan::Job& job, const std::string& command);
std::string fabric_page(const Value& answer, const std::string& command);

}  // namespace tombolo::predict_commands
