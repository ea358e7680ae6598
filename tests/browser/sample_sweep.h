// A page of what-ifs to look at: 4 latencies x 2 schedules x 2 numbers of connections; one
// configuration is infeasible.
#pragma once

#include "ui/report/sweep_chart.h"

namespace tombolo::report {

SweepChartPage sample_sweep();

}  // namespace tombolo::report
