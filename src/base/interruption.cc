#include "base/interruption.h"

namespace tombolo {
namespace {
thread_local Interruption* watched_here = nullptr;
thread_local const WorkLimit* limit_here = nullptr;
}  // namespace

Interruption* Interruption::of_this_thread() { return watched_here; }

Interruption::Watched::Watched(Interruption* interruption) : before_(watched_here) {
  watched_here = interruption;
}

Interruption::Watched::~Watched() { watched_here = before_; }

Interruption::Heeded::Heeded(Interruption* interruption) : interruption_(interruption) {
  if (interruption_) ++interruption_->searches_;
}

Interruption::Heeded::~Heeded() {
  if (!interruption_) return;
  if (interruption_->asked()) {
    interruption_->heeded_ = true;
    --interruption_->asked_;
  }
  --interruption_->searches_;
}

void stop_if_interrupted() {
  const Interruption* const here = watched_here;
  if (here && here->asked_ > (here->searches_ > 0 ? 1 : 0)) throw Interrupted{};
  if (limit_here && limit_here->is_over()) throw OutOfTime{};
}

WorkLimit::WorkLimit(const std::function<bool()>& ended) : ended_(ended), before_(limit_here) {
  limit_here = this;
}

WorkLimit::~WorkLimit() { limit_here = before_; }

const WorkLimit* WorkLimit::of_this_thread() { return limit_here; }

WorkLimit::Shared::Shared(const WorkLimit* limit) : before_(limit_here) { limit_here = limit; }

WorkLimit::Shared::~Shared() { limit_here = before_; }

}  // namespace tombolo
