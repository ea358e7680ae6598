// A page of streams to look at: a forward and a backward of four operators each, on three streams.
#pragma once

#include "ui/report/stream_chart.h"

namespace tombolo::report {

StreamChartPage sample_streams();

}  // namespace tombolo::report
