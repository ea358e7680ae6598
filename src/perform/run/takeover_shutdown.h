// Completes a run whose launcher was killed after the last step: ranks that missed the message that
// all is done reconnect, and the next launcher tells them. Ranks that had received it never return.
#pragma once

#include "perform/run/workers.h"

namespace tombolo::run {

// Blocks until every rank but 0 (the previous launcher's child, which ended with it) has connected
// and gone again, for `patience` at most. A rank is told when it says hello, a spare when it waits.
void say_farewell(Workers& workers, size_t ranks, const state::Over& over, SimDuration patience,
                  Threads& clock);

}  // namespace tombolo::run
