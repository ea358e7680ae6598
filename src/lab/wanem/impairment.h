// Loss and jitter: what a WAN does to packets by chance. Each is a stream of draws of its own, in
// virtual time, and costs nothing where it is off.
#pragma once

#include <cstdint>

#include "base/random.h"
#include "base/time.h"

namespace tombolo::wanem {

// Loses segments, independently or in bursts.
//
// The model of Gilbert (1960): in the good state segments pass, in the bad one they are lost, and
// both states last a geometrically distributed number of segments. With a share p lost in the long
// run and bursts of mean length b, the bad state ends after a segment with probability 1 / b, the
// good one with p / (b (1 - p)). Independent losses are the case b = 1 / (1 - p), and the least b
// that is taken here. The first state is drawn with probability p, so the process is stationary.
//
// Draws one number per state, that is two per burst, however many segments pass.
class Loss {
 public:
  Loss() : random_(0) {}
  Loss(double loss, double burst, const Random& random);

  struct Run {
    uint32_t length;
    bool lost;
  };
  // The fate of the next segments: a run of equal fate, `most` long at most. most > 0.
  Run take(uint32_t most);

 private:
  uint64_t draw_length();

  double leaves_good_ = 0;  // probabilities, after each segment
  double leaves_bad_ = 1;
  bool bad_ = false;
  uint64_t left_ = UINT64_MAX;  // segments until the state changes
  Random random_;
};

// Varies the delay around its mean with a given standard deviation.
//
// Noise that is new for every packet would do something else than it says: where packets follow
// closely and keep their order, each waits for the slowest before it, and the delay sits near the
// maximum. Delays of real paths wander, since queues elsewhere build up and drain. So this is a
// stationary Gauss-Markov (Ornstein-Uhlenbeck) process, exact at whatever instants it is asked for:
// correlation exp(-t / m) over a time t, with a memory m of 100 ms or 20 standard deviations,
// whichever is longer. Keeping the order then costs less than a tenth of the deviation.
class Jitter {
 public:
  Jitter() : random_(0) {}
  Jitter(SimDuration deviation, const Random& random);

  SimDuration at(SimTime instant);  // to be added to the delay; instants do not go back

 private:
  double deviation_ns_ = 0;
  double memory_ns_ = 1;
  bool started_ = false;
  double value_ = 0;  // in deviations
  SimTime last_;
  Random random_;
};

}  // namespace tombolo::wanem
