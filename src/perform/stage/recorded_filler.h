// A filler that remembers when it filled, so that the Trace can show what the gaps of training were
// used for: one span per piece, up to `spans_max` of them; later ones are filled but not recorded.
// On the performing thread, like every filler.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "perform/stage/filler.h"
#include "spec/trace/trace.h"

namespace tombolo::stage {

class RecordedFiller final : public Filler {
 public:
  // `filler` may be null, which never fills.
  RecordedFiller(Filler* filler, const Clock& clock, size_t spans_max = 200'000)
      : filler_(filler), clock_(clock), spans_max_(spans_max) {}

  bool fill(SimTime until) override;
  std::optional<transport::Endpoint::Awaited> awaited() const override {
    return filler_ ? filler_->awaited() : std::nullopt;
  }
  Status take(const link::Payload& message) override { return filler_->take(message); }

  // Layers of prompts by this rank, as times since `origin`; what began before is left out.
  std::vector<trace::Interval> intervals(int32_t rank, int32_t stage, SimTime origin) const;

 private:
  Filler* filler_;
  const Clock& clock_;
  size_t spans_max_;
  std::vector<std::pair<SimTime, SimTime>> spans_;
};

}  // namespace tombolo::stage
