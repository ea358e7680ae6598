// What the rail-only paper says of traffic between GPUs (section 3), beside our figures.
//
// Its models and splits are those of Megatron-LM: Narayanan et al. 2021, table 1, the last four
// rows, in domains of eight; and GPT-1T on 16 GH200 of 256 GPUs. The paper gives bounds ("over 99
// %", "less than 0.04 %") for all four models at once; where one does not meet a bound, its row
// says so.
#pragma once

#include <vector>

#include "evidence/reproduce/reproduce.h"

namespace tombolo::reproduce {

std::vector<Table> rail_only_traffic();

}  // namespace tombolo::reproduce
