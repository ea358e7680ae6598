// The three streams of a device, what runs on them, and how fast: each operator at the product of
// its paces with the others that run.
#pragma once

#include <array>
#include <cstdint>

#include "predict/strand/strand_pair.h"

namespace tombolo::strand {

// An operator from its start to its end. Numbered as in StrandPair.
struct OperatorRun {
  uint8_t op = 0;
  double start = 0;
  double end = 0;
};

class DeviceStreams {
 public:
  struct Running {
    int op = -1;      // none
    double left = 0;  // seconds at full pace
    double since = 0;
  };

  // Those that ended at one instant.
  struct Ended {
    double step = 0;  // seconds until then
    std::array<OperatorRun, kStreams> runs;
    size_t count = 0;
  };

  const Running& on(size_t stream) const { return running_[stream]; }
  bool free(Stream stream) const { return running_[static_cast<size_t>(stream)].op < 0; }
  bool idle() const;
  void start(const StrandPair& pair, size_t op, double now);
  // Until the next operator ends, from `now` on. Nothing runs: nothing ends, at once.
  Ended advance(const StrandPair& pair, double now);

 private:
  std::array<Running, kStreams> running_;
};

}  // namespace tombolo::strand
