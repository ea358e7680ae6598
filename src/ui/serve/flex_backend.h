// Requests that may wait do, for another backend: who says "service_tier": "flex" is not refused where there
// is no room now (no memory, no gaps of training, others under way, nobody who computes) but asked again, one
// after the other, the longest waiting first.
//
//   no room within `patience` of its arrival          lost
//   whoever computes has gone, and will not return    lost, at once
//   lost before its first token                       it waits again, behind the others
//   refused for what it is                            at once, while nobody waits; else when its turn comes
//
// Nothing runs here by itself: the one that waits longest asks when its reader does. How many may wait is
// up to who admits them (ServeLimits::flex_requests).
#pragma once

#include <cstdint>
#include <mutex>
#include <set>

#include "base/clock.h"
#include "ui/serve/backend.h"

namespace tombolo::serve {

struct FlexOptions {
  SimDuration patience{600'000'000'000};
  SimDuration pause{20'000'000};  // between two attempts
};

class FlexBackend final : public Backend {
 public:
  // `inner` and the clock outlive this, and this outlives its answers.
  FlexBackend(Backend& inner, FlexOptions options, Clock& clock)
      : inner_(inner), options_(options), clock_(clock) {}

  tl::expected<std::unique_ptr<Answer>, generate::Refused> admit(
      generate::Request request) override;
  bool alive() const override { return inner_.alive(); }
  bool ready() const override { return inner_.ready(); }
  std::string end() const override { return inner_.end(); }
  int64_t waiting() const override;

 private:
  class Flexible;
  int64_t queue();  // behind all others; whose place it is
  void leave(int64_t place);
  bool is_first(int64_t place) const;

  Backend& inner_;
  const FlexOptions options_;
  Clock& clock_;
  mutable std::mutex mutex_;
  std::set<int64_t> places_;  // of those that wait
  int64_t next_place_ = 1;
};

}  // namespace tombolo::serve
