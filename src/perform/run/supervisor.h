// A supervisor: the process that a person started, with the launcher as its child. Where the
// launcher is killed, it starts it again once no worker of it is left, and the new one goes on with
// the run from the journal (join/membership.h).
#pragma once

#include <atomic>
#include <cstdint>

namespace tombolo::run {

struct Life {
  int number = 0;  // how often the launcher was killed before
  // Shared with the supervisor: a launcher that was killed is only started again so many times in a
  // row without a step in between.
  std::atomic<int64_t>* step = nullptr;
};

// Forks, before there are threads. Returns in the child, once per life, which ends when the
// supervisor does. The supervisor passes signals on that are meant for the run, and ends as the
// last launcher did.
Life supervise(int restarts);

}  // namespace tombolo::run
