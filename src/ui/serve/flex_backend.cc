#include "ui/serve/flex_backend.h"

#include <algorithm>
#include <utility>

#include "base/units.h"

namespace tombolo::serve {

using generate::Refusal;
using generate::Refused;
using generate::Request;

// A request that may wait, and its answer.
class FlexBackend::Flexible final : public Answer {
 public:
  Flexible(FlexBackend& owner, Request request, std::unique_ptr<Answer> answer)
      : owner_(owner),
        request_(std::move(request)),
        since_(owner.clock_.now()),
        answer_(std::move(answer)) {
    if (!answer_) place_ = owner_.queue();
  }
  ~Flexible() override { leave(); }

  Step next(SimDuration patience) override {
    if (!answer_) return wait(patience);
    Step step = answer_->next(patience);
    if (step.kind == StepKind::kLost && !begun_) {
      answer_.reset();
      place_ = owner_.queue();
      return {};
    }
    begun_ = begun_ || step.kind == StepKind::kToken;
    return step;
  }
  void commit() override {
    if (answer_) answer_->commit();
  }

 private:
  // One attempt, if it is the first one's, or a pause.
  Step wait(SimDuration patience) {
    if (!owner_.inner_.alive())
      return leave({.kind = StepKind::kLost, .message = "The worker has gone."});
    if (owner_.clock_.now() - since_ > owner_.options_.patience) {
      return leave({.kind = StepKind::kLost,
                    .message = fmt::format("No room came within {}.",
                                           brief(seconds(owner_.options_.patience)))});
    }
    if (owner_.is_first(place_)) {
      auto answer = owner_.inner_.admit(request_);
      if (answer) {
        answer_ = std::move(*answer);
        return leave({});
      }
      if (answer.error().why != Refusal::kBusy)
        return leave({.kind = StepKind::kFailed, .message = answer.error().message + "."});
    }
    const SimDuration pause{std::min(patience.ns, owner_.options_.pause.ns)};
    owner_.clock_.sleep_until(owner_.clock_.now() + pause);
    return {};
  }

  Step leave(Step step) {
    leave();
    return step;
  }
  void leave() {
    if (const int64_t place = std::exchange(place_, 0)) owner_.leave(place);
  }

  FlexBackend& owner_;
  const Request request_;
  const SimTime since_;
  std::unique_ptr<Answer> answer_;  // null: it waits
  int64_t place_ = 0;               // among those that wait
  bool begun_ = false;              // its reader has a token
};

tl::expected<std::unique_ptr<Answer>, Refused> FlexBackend::admit(Request request) {
  if (!request.flex || !inner_.alive()) return inner_.admit(std::move(request));
  if (waiting() > 0) return std::make_unique<Flexible>(*this, std::move(request), nullptr);
  auto answer = inner_.admit(request);
  if (!answer && answer.error().why != Refusal::kBusy) return answer;
  return std::make_unique<Flexible>(*this, std::move(request),
                                    answer ? std::move(*answer) : nullptr);
}

int64_t FlexBackend::waiting() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(places_);
}

int64_t FlexBackend::queue() {
  const std::lock_guard lock(mutex_);
  return *places_.insert(next_place_++).first;
}

void FlexBackend::leave(int64_t place) {
  const std::lock_guard lock(mutex_);
  places_.erase(place);
}

bool FlexBackend::is_first(int64_t place) const {
  const std::lock_guard lock(mutex_);
  return *places_.begin() == place;
}

}  // namespace tombolo::serve
