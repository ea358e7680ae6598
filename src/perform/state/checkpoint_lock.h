// One run at a time writes into a folder of checkpoints.
//
// Its launcher and its ranks share the lock, whichever hosts they are on: it is a file in the folder
// that names the run, under a lock of the kernel's (flock) that ends with the processes that hold it.
// Who finds it locked reads whose it is. A run keeps its name when its launcher is started again, so
// that a rank that hangs with the lock is in nobody's way but another run's.
//
// Where the file system knows no locks, nothing is locked.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace tombolo::state {

class CheckpointLock {
 public:
  // The folder exists. Unusable where another run holds it for all of `patience`: what is left of a
  // run whose launcher was killed may take a moment to end.
  static Result<CheckpointLock> take(const std::string& folder, const std::string& run,
                                     Clock& clock,
                                     SimDuration patience = SimDuration{5'000'000'000});
  CheckpointLock(CheckpointLock&& other) noexcept;
  CheckpointLock& operator=(CheckpointLock&&) = delete;
  ~CheckpointLock();  // who is the last to hold it removes the file

 private:
  CheckpointLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

// What a run is called in its lock: by host and folder of its launcher. Of one that nobody goes on
// with, also by process: its journal does not keep a second run out of that folder.
std::string run_name(const std::string& output, bool lasting);

}  // namespace tombolo::state
