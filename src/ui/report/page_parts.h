// What pages with one picture have in common, as the data that their scripts read.
#pragma once

#include <vector>

#include "base/value.h"
#include "ui/report/heat_map.h"

namespace tombolo::report {

Value cards_data(const std::vector<HeatMapCard>& cards);
Value layers_data(const std::vector<HeatMapLayer>& layers);
// CHECKs that every row has a cell for each column.
Value tables_data(const std::vector<HeatMapTable>& tables);

}  // namespace tombolo::report
