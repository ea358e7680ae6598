#pragma once

#include <cstdint>
#include <string>

#include "spec/plan/plan.h"

namespace tombolo::plan {

// "rank 1 (paris)".
std::string rank_name(const Plan& plan, int32_t rank);

}  // namespace tombolo::plan
