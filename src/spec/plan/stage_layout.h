// Where the stages of a pipeline lie when a rank holds several of them.
//
// Stages are chunks of the model, in its order; positions are the places of a pipeline, one rank
// each. Usually stage s lies at position s. With virtual stages there are v times as many stages as
// positions:
//
//   line   0 1 2 3          stage s at position s
//   loop   0 1 2 3          round and round: s mod p (Megatron's interleaving)
//          4 5 6 7
//   fold   0 1 2 3          there and back: the last position holds two neighbours (ZB-V, W-shape,
//          7 6 5 4          DualPipeV)
#pragma once

#include <cstdint>
#include <string_view>

namespace tombolo::plan {

enum class Layout { kLine, kLoop, kFold };

constexpr int32_t position_of(Layout layout, int32_t stage, int32_t positions) {
  if (layout == Layout::kLine || stage < positions) return stage;
  const int32_t within = stage % positions;
  const bool back = layout == Layout::kFold && (stage / positions) % 2 == 1;
  return back ? positions - 1 - within : within;
}

// What a schedule asks for, by its name in job files; names that are not known are lines.
constexpr Layout layout_of(std::string_view schedule) {
  if (schedule == "interleaved") return Layout::kLoop;
  if (schedule == "zb-v" || schedule == "w" || schedule == "dualpipev") return Layout::kFold;
  return Layout::kLine;
}

}  // namespace tombolo::plan
