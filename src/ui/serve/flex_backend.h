// Queues requests for another backend if they may wait ("service_tier": "flex"): while there is no room (no
// memory, no gaps of training, others under way, no worker) they are not refused but tried again, one after
// the other, the longest waiting first.
//
//   no room within `patience` of its arrival          lost
//   the worker has gone, and will not return          lost, at once
//   lost before its first token                       it waits again, behind the others
//   refused for another reason than room              at once, if no other waits; else when its turn comes
//
// There is no thread here: the request that waits longest is tried whenever its reader calls next(). The
// caller limits how many may wait (ServeLimits::flex_requests).
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
  int64_t queue();  // behind all others; returns its place
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
