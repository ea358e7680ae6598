// A plan in the terminal: a line per stream, time from left to right.
//
//   compute |LN1|QKV----|FC2d=====|..|
//   local   |   AG1-----|bAG2=|
//
// Names are cut to the width of their operator; '-' fills those of the forward pass, '=' those of
// the backward pass. An operator narrower than a column is left out where another stands there.
#pragma once

#include <span>
#include <string>

#include "predict/strand/co_run.h"

namespace tombolo::strand {

std::string picture(const StrandPair& pair, std::span<const OperatorRun> runs, double seconds,
                    size_t width);

}  // namespace tombolo::strand
