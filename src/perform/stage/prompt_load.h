// A synthetic, endless load of prompts in the gaps of an emulated rank: a layer is a wait of the
// duration that a law gives it, as emulated kernels wait instead of computing. There are no
// requests and no answers; it shows how many prompts a run could serve, and that training is not
// affected.
#pragma once

#include "base/clock.h"
#include "perform/stage/filler.h"

namespace tombolo::stage {

class PromptLoadFiller : public Filler {
 public:
  // A prompt has `layers` layers; the last one takes `ends` more. CHECKs that a layer takes time.
  PromptLoadFiller(int64_t layers, SimDuration layer, SimDuration ends, Clock& clock);

  // A wait that ends late by less than 10 ms makes the next one shorter (emulated_kernels.h).
  bool fill(SimTime until) override;
  int64_t prompts() const { return prompts_; }  // that are done

 private:
  int64_t layers_;
  SimDuration layer_, ends_;
  Clock& clock_;
  int64_t done_ = 0;  // layers of this prompt
  int64_t prompts_ = 0;
  SimDuration late_;
};

}  // namespace tombolo::stage
