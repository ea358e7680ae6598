// The end of a run whose launcher was killed behind the last step: ranks that had not heard yet that
// all is done come again, and the next launcher tells them. Those that had heard it never come.
#pragma once

#include "perform/run/workers.h"

namespace tombolo::run {

// Blocks until every rank but that of this host's launcher has come and gone, for `patience` at
// most. A rank is told when it says hello, a spare when it waits.
void say_farewell(Workers& workers, size_t ranks, const state::Over& over, SimDuration patience,
                  Threads& clock);

}  // namespace tombolo::run
