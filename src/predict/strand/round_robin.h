// What others do without a plan: the two strands in turn, each in its own order.
//
// Wavelet (Wang et al. 2021) interleaves operators of two passes in turn. With a barrier after each
// pair that is lock step; without, both strands are put on the streams in turn and a device takes
// what is next in each queue. Implementations lie between the two.
#pragma once

#include <vector>

#include "predict/strand/co_run.h"
#include "predict/strand/strand_pair.h"

namespace tombolo::strand {

// `runs`, where given, gets every operator.
double in_turn_seconds(const StrandPair& pair, std::vector<OperatorRun>* runs = nullptr);

}  // namespace tombolo::strand
