// What a rank has reported of its iterations, and the launcher has not recorded yet.
//
// Reports that were on their way to a launcher, or in it, are lost when it is killed. So a rank keeps
// each until the launcher says that it has recorded the step (Recorded, control_message.h), and tells
// those that are left to the next launcher, before it begins to work.
//
// That one may meet the rank's next process. So when a rank stops because its launcher is gone, what
// it keeps goes into a file in its output folder, and so does what it reports from then on. Nothing
// is written before: an iteration never waits for a disk.
//
// Memory: `most` reports, the newest, where a launcher records nothing because its disk is full.
#pragma once

#include <cstdint>
#include <deque>
#include <fstream>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "perform/join/control_message.h"

namespace tombolo::join {

class UnrecordedReports {
 public:
  explicit UnrecordedReports(size_t most = 100'000) : most_(most) {}

  // This rank's file, in the output folder of its host.
  static std::string path(const std::string& output, int32_t rank);

  // What the process before left in its file, of steps before `first_iteration`: those from there on
  // are done again. In the order in which they were reported.
  std::vector<ControlMessage> take_over(const std::string& path, int64_t first_iteration);
  // Forgets what is there instead, for it is of another run.
  void begin(const std::string& path);

  // Called before the report is sent. Any thread, as below.
  void add(int64_t step, const ControlMessage& report);
  // Up to this step none is needed any more.
  void recorded(int64_t step);
  // The launcher is gone. What cannot be written is lost, and that is no error.
  void leave();
  // The run is over: they are needed no more.
  void forget();

  size_t size() const;

 private:
  void keep(int64_t step, const ControlMessage& report);
  void write(const ControlMessage& report);

  const size_t most_;
  mutable std::mutex mutex_;
  std::string path_;
  std::deque<std::pair<int64_t, ControlMessage>> kept_;  // by step
  std::ofstream file_;                                   // open from leave() on
  bool over_ = false;
};

}  // namespace tombolo::join
