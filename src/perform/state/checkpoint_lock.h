// One run at a time writes into a folder of checkpoints.
//
// Its launcher and its ranks share the lock, whichever hosts they are on: it is a file in the folder
// that names the run, under a lock of the kernel's (flock) that ends with the processes that hold it.
// A process that finds it locked reads which run holds it. A run keeps its name when its launcher is
// restarted, so a rank that hangs while it holds the lock blocks other runs only, never its own.
//
// If the file system does not support locks, nothing is locked.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace tombolo::state {

class CheckpointLock {
 public:
  // The folder must exist. Unusable if another run holds the lock for all of `patience`: processes of
  // a run whose launcher was killed may take a moment to end.
  static Result<CheckpointLock> take(const std::string& folder, const std::string& run,
                                     Clock& clock,
                                     SimDuration patience = SimDuration{5'000'000'000});
  CheckpointLock(CheckpointLock&& other) noexcept;
  CheckpointLock& operator=(CheckpointLock&&) = delete;
  ~CheckpointLock();  // the last holder removes the file

 private:
  CheckpointLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

// A run's name in the lock: host and folder of its launcher. Without `lasting` (no launcher resumes
// the run) also the process id, because its journal does not keep a second run out of that folder.
std::string run_name(const std::string& output, bool lasting);

}  // namespace tombolo::state
