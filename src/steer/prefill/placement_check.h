// Verifies placements: what must hold whichever code made them.
#pragma once

#include <vector>

#include "base/result.h"
#include "steer/prefill/prefill_controller.h"

namespace tombolo::prefill {

// A prompt that was placed: its request and its placement.
struct PlacedPrompt {
  PrefillRequest request;
  PrefillPlacement placement;
};

// Failed, naming the prompts, where
//   layers of two prompts, or of one, overlap on a GPU
//   one overlaps a computation of training, or the guard before it
//   one begins before the prompt has come, or before the layer before it is done and its activations
//   are there
//   a layer is missing, runs twice, on another GPU than its shard's, or not as long as it should
//   without suspension, a shard is interrupted
//   the first token or the hand-over is later than the bound, or earlier than the last layer
//
// For placements as they were made, with training as predicted. Cost: O(runs log runs).
Status check_placements(const PrefillSetting& setting, const std::vector<PlacedPrompt>& prompts);

}  // namespace tombolo::prefill
