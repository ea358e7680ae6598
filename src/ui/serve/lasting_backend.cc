#include "ui/serve/lasting_backend.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "base/units.h"

namespace tombolo::serve {

using generate::Refusal;
using generate::Refused;

namespace {

constexpr SimDuration kLookAtWorker{20'000'000};  // at who computes

}  // namespace

// A prompt and its answer, of one worker after the other.
class LastingBackend::Lasting final : public Answer {
 public:
  Lasting(LastingBackend& owner, generate::Request request, Place place,
          std::unique_ptr<Answer> answer)
      : owner_(owner),
        request_(std::move(request)),
        place_(std::move(place)),
        since_(owner.clock_.now()),
        answer_(std::move(answer)) {}

  Step next(SimDuration patience) override {
    if (!answer_) return begin_again(patience);
    Step step = answer_->next(patience);
    if (step.kind == StepKind::kLost) return lose(std::move(step));
    if (step.kind == StepKind::kToken) return take(std::move(step));
    if (step.kind != StepKind::kWaiting && again_ < given_.size()) return other_answer();
    return step;
  }
  void commit() override { committed_ = true; }

 private:
  Step lose(Step step) {
    answer_.reset();
    place_.worker.reset();
    if (committed_) return step;
    since_ = owner_.clock_.now();
    return {};
  }

  Step take(Step step) {
    if (committed_) return step;
    if (again_ == given_.size()) {
      given_.push_back(step.token);
      ++again_;
      return step;
    }
    return given_[again_++] == step.token ? Step{} : other_answer();
  }

  static Step other_answer() {
    return {.kind = StepKind::kFailed, .message = "Computed again, the answer became another one."};
  }

  Step begin_again(SimDuration patience) {
    Place there = owner_.await_other(place_.number, patience);
    if (there.over) return {.kind = StepKind::kLost, .message = "The worker has gone."};
    if (there.worker) {
      auto answer = there.worker->admit(request_);
      const bool present = there.worker->alive();
      place_.number = there.number;
      if (answer) {
        place_.worker = std::move(there.worker);
        answer_ = std::move(*answer);
        again_ = 0;
        return {};
      }
      if (present) return refused(answer.error());
    }
    if (owner_.clock_.now() - since_ < owner_.options_.prompt_patience) return {};
    return {.kind = StepKind::kLost,
            .message = "The worker has gone, and was not back in time; try again, or elsewhere."};
  }

  static Step refused(const Refused& why) {
    return {.kind = why.why == Refusal::kBusy ? StepKind::kLost : StepKind::kFailed,
            .message = "The worker has gone, and the next one has refused: " + why.message + "."};
  }

  LastingBackend& owner_;
  const generate::Request request_;
  Place place_;  // outlives its answer
  SimTime since_;
  std::vector<int64_t> given_;  // tokens; of what is not committed
  size_t again_ = 0;            // how many of them this worker has given
  bool committed_ = false;
  std::unique_ptr<Answer> answer_;  // null: from no worker now
};

LastingBackend::LastingBackend(std::unique_ptr<Backend> first, Open open, LastingOptions options,
                               const Clock& clock)
    : open_(std::move(open)), options_(std::move(options)), clock_(clock) {
  place_ = {.worker = std::move(first), .number = 1};
  keeper_ = start_without_signals([this] { keep(); });
}

LastingBackend::~LastingBackend() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  keeper_.join();
}

tl::expected<std::unique_ptr<Answer>, Refused> LastingBackend::admit(generate::Request request) {
  Place there = place();
  if (!there.worker || !there.worker->alive()) {
    return tl::unexpected(Refused{
        Refusal::kBusy, there.over ? "the worker has gone" : "the worker has gone and is awaited"});
  }
  auto answer = there.worker->admit(request);
  if (!answer && there.worker->alive()) return tl::unexpected(answer.error());
  auto first = answer ? std::move(*answer) : nullptr;  // else it ended meanwhile
  if (!first) there.worker.reset();
  return std::make_unique<Lasting>(*this, std::move(request), std::move(there), std::move(first));
}

LastingBackend::Place LastingBackend::place() const {
  const std::lock_guard lock(mutex_);
  return place_;
}

LastingBackend::Place LastingBackend::await_other(int64_t than, SimDuration patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::nanoseconds(patience.ns),
                    [&] { return place_.over || (place_.worker && place_.number != than); });
  return place_.number == than ? Place{.over = place_.over} : place_;
}

bool LastingBackend::alive() const { return !place().over; }

bool LastingBackend::ready() const {
  const Place there = place();
  return there.worker && there.worker->alive();
}

std::string LastingBackend::end() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

bool LastingBackend::pause(SimDuration span) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::nanoseconds(span.ns),
                            [&] { return stopping_.load(); });
}

Result<std::unique_ptr<Backend>> LastingBackend::reopen() {
  const SimTime until = clock_.now() + options_.patience;
  for (;;) {
    auto next = open_(std::max(until - clock_.now(), options_.pause), stopping_);
    if (next || clock_.now() + options_.pause > until || !pause(options_.pause)) return next;
  }
}

void LastingBackend::keep() {
  while (pause(kLookAtWorker)) {
    Place gone = place();
    if (gone.worker->alive()) continue;
    const std::string why = gone.worker->end();
    const bool may_return = gone.worker->may_return();
    {
      const std::lock_guard lock(mutex_);
      place_.worker.reset();
    }
    gone.worker->hang_up();
    gone.worker.reset();
    if (may_return) {
      options_.log(fmt::format("{}; it is awaited for {}", why, brief(seconds(options_.patience))));
    }
    auto next = may_return ? reopen() : failed(why);
    if (next) options_.log("the worker is there again");
    const std::lock_guard lock(mutex_);
    if (next) place_ = {.worker = std::move(*next), .number = place_.number + 1};
    if (!next) {
      place_.over = true;
      end_ = may_return ? fmt::format("{}, and was not back within {}: {}", why,
                                      brief(seconds(options_.patience)), next.error().message)
                        : why;
    }
    changed_.notify_all();
    if (!next) return;
  }
}

}  // namespace tombolo::serve
