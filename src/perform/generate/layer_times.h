// How long the next layer will take, from the ones that were done: whether it still fits into a gap
// must be known before it begins.
//
//   expected = FLOPs of the layer x the most time per FLOP among the last 16 layers of its kind
//
// Layers are of one kind if their numbers of rows lie between the same powers of two: products of
// few rows read all weights for little work, so they take more time per FLOP. A kind that was
// never seen takes the time per FLOP of the nearest one with fewer rows, which is larger, else of
// the nearest one. Zero before the first layer.
//
// The most, not the mean: a layer that overruns its gap delays training, one that waits for the next
// gap delays a prompt. Cost: a look at 16 numbers.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "base/time.h"
#include "base/units.h"
#include "spec/model/model.h"

namespace tombolo::generate {

// One layer of a pass of `rows` tokens behind `past` others; `head`: the logits of one token too.
struct LayerWork {
  int64_t rows = 0;
  int64_t past = 0;
  bool head = false;
};

// Matrix products and the scores that causal attention really computes, row by row:
//   2 rows (parameters of the matrices) + 4 w (rows past + rows (rows + 1) / 2) [+ 2 h V]
Flops layer_flops(const model::Model& model, const LayerWork& work);

class LayerTimes {
 public:
  explicit LayerTimes(const model::Model& model) : model_(model) {}

  void observe(const LayerWork& work, SimDuration took);
  SimDuration expect(const LayerWork& work) const;
  // Of the kind that predicts `work`: one slow layer, on a busy machine, must not delay prompts for
  // ever.
  void forget_slowest(const LayerWork& work);
  void forget_slowest_of_each();  // kind

 private:
  static constexpr size_t kRemembered = 16;
  struct Kind {
    std::array<double, kRemembered> seconds_per_flop{};  // the last ones, oldest overwritten
    size_t next = 0;
  };

  std::map<int, Kind>::const_iterator nearest(const LayerWork& work) const;

  model::Model model_;
  std::map<int, Kind> kinds_;  // by the power of two
};

}  // namespace tombolo::generate
