#include "perform/stage/recorded_filler.h"

namespace tombolo::stage {

bool RecordedFiller::fill(SimTime until) {
  if (!filler_) return false;
  const SimTime start = clock_.now();
  const bool filled = filler_->fill(until);
  if (filled && spans_.size() < spans_max_) spans_.emplace_back(start, clock_.now());
  return filled;
}

std::vector<trace::Interval> RecordedFiller::intervals(int32_t rank, int32_t stage,
                                                       SimTime origin) const {
  std::vector<trace::Interval> out;
  for (const auto& [start, end] : spans_) {
    if (start < origin) continue;
    out.push_back({.lane = trace::Lane::kCompute,
                   .rank = rank,
                   .action = {action::ActionKind::kPrompt, stage, -1},
                   .start = SimTime{} + (start - origin),
                   .end = SimTime{} + (end - origin)});
  }
  return out;
}

}  // namespace tombolo::stage
