// Other ways to choose what to send, by name, to compare ours with on the same gradients.
//
//   blocks        ours (compressor.h)               blocks-exact   the same, exact in every step
//   blocks-aimd   blocks by a threshold that rises by a fixed amount where more reach it than wanted,
//                 and falls by a factor else: StellaTrain (2024), 3.2, whose constants are not
//                 published. Here a twentieth of the first exact threshold, and 0.9
//   threshold-v   elements that reach a fixed threshold, here of the first exact step (Dutta et al.,
//                 2020)
//   top-k         the elements with the largest magnitudes (Aji & Heafield, 2017; top_k.h sends them)
//   chunk-top-k   the 64 largest of every 4,096 elements, or as many as the density says (SparseLoCo,
//                 2025; chunks.h sends them)
//   random-k      elements drawn without looking (Stich et al., 2018)
//
// Written to be clear, not fast, but for ours.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tombolo::compress {

class Selection {
 public:
  virtual ~Selection() = default;
  // Indices of elements, ascending. Fewer than 2^32 numbers, all finite, of the same count each time.
  virtual std::vector<uint32_t> select(std::span<const float> numbers) = 0;
};

std::vector<std::string> selection_names();

// density in (0, 1]: of the elements. The seed is for random-k.
Result<std::unique_ptr<Selection>> make_selection(std::string_view name, double density,
                                                  uint64_t seed);

}  // namespace tombolo::compress
