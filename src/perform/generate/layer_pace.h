// Decides whether to begin the next layer in the rest of a window: by how long it should take
// (layer_times.h), but so that a prompt makes progress even if no window is long enough.
#pragma once

#include "base/time.h"
#include "perform/generate/layer_times.h"

namespace tombolo::generate {

class LayerPace {
 public:
  explicit LayerPace(const model::Model& model) : times_(model) {}

  // Whether it should end by `until`. After eight refused windows in a row (each with an `until` of
  // its own) the slowest observation is forgotten, so that layers are still computed; a few then
  // overrun their window.
  bool fits(const LayerWork& work, SimTime until, SimTime now);
  void observe(const LayerWork& work, SimDuration took) { times_.observe(work, took); }
  SimDuration expect(const LayerWork& work) const { return times_.expect(work); }
  // A prompt was refused because of the expected time of its layers, although there was no other
  // work. A refused prompt yields no new observation, so every eighth time the slowest observation
  // of each kind of work is forgotten, whichever kind caused the refusals.
  void doubt();

 private:
  LayerTimes times_;
  int refused_ = 0;  // windows in a row, for being too short
  int doubts_ = 0;
  SimTime refused_until_{-1};  // the last of them
};

}  // namespace tombolo::generate
