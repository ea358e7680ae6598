// A supervisor: the process that a person started, with the launcher as its child. If the launcher
// is killed, the supervisor starts it again once none of its workers is left, and the new launcher
// resumes the run from the journal (join/membership.h).
#pragma once

#include <atomic>
#include <cstdint>

namespace tombolo::run {

struct Life {
  int number = 0;  // how often the launcher was killed before
  // The newest step, in memory shared with the supervisor, which starts a killed launcher again at
  // most `restarts` times in a row without a new step in between.
  std::atomic<int64_t>* step = nullptr;
};

// Forks, so call it before there are threads. Returns in the child, once per launcher; a launcher
// dies with its supervisor. The supervisor passes on signals that are meant for the run, and exits
// as the last launcher did.
Life supervise(int restarts);

}  // namespace tombolo::run
