// The Plan file: one JSON document, {"tombolo_plan": 1, ...}. Equal Plans give equal bytes.
#pragma once

#include <string>
#include <string_view>

#include "base/fields.h"
#include "base/result.h"
#include "base/value.h"
#include "spec/plan/plan.h"

namespace tombolo::plan {

inline constexpr int kPlanVersion = 1;

std::string to_json_text(const Plan& plan);
Value to_value(const Plan& plan);  // for embedding in a Trace
std::string plan_digest(const Plan& plan);

// Both refuse a Plan that does not pass validate().
Result<Plan> parse_plan(std::string_view text, const std::string& name);
Result<Plan> from_value(const Value& value, const std::string& name);

Status write_plan(const std::string& path, const Plan& plan);
Result<Plan> read_plan(const std::string& path);

// The keys of a Plan file, for `tombolo help`.
std::vector<KeyEntry> plan_keys();

}  // namespace tombolo::plan
