// A page of heat maps to look at: 16 GPUs in domains of 4, and the first domains by themselves.
#pragma once

#include "ui/report/heat_map.h"

namespace tombolo::report {

HeatMapPage sample_heat_map();

}  // namespace tombolo::report
