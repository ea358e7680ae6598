// Whether the next layer is begun in the window that is left: by how long it should take
// (layer_times.h), and so that a prompt gets on even where no window is long enough.
#pragma once

#include "base/time.h"
#include "perform/generate/layer_times.h"

namespace tombolo::generate {

class LayerPace {
 public:
  explicit LayerPace(const model::Model& model) : times_(model) {}

  // Whether it should be over by `until`. Expectations that have refused eight windows in a row (each
  // with an `until` of its own) lose their slowest observation, so that layers get done all the same,
  // by few that overrun theirs.
  bool fits(const LayerWork& work, SimTime until, SimTime now);
  void observe(const LayerWork& work, SimDuration took) { times_.observe(work, took); }
  SimDuration expect(const LayerWork& work) const { return times_.expect(work); }
  // A prompt was refused for what is expected of layers, although nothing else was to be done. A
  // refused prompt teaches nothing, so every eighth time the slowest observation of each kind of work
  // is forgotten: of whichever kind it was that refused.
  void doubt();

 private:
  LayerTimes times_;
  int refused_ = 0;  // windows in a row, for being too short
  int doubts_ = 0;
  SimTime refused_until_{-1};  // the last of them
};

}  // namespace tombolo::generate
