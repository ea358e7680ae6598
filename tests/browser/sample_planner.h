// A page of a decision to look at: ten datacenters, each joined to each, twelve answers, two of them in one place of the chart, and
// break-evens along two axes.
#pragma once

#include "ui/report/planner_page.h"

namespace tombolo::report {

PlannerPage sample_planner();

}  // namespace tombolo::report
