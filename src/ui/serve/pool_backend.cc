#include "ui/serve/pool_backend.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"

namespace tombolo::serve {

using generate::Refusal;
using generate::Refused;
using generate::Request;

class PoolBackend::Pooled final : public Answer {
 public:
  Pooled(PoolBackend& owner, Request request, Taken taken)
      : owner_(owner), request_(std::move(request)), taken_(std::move(taken)) {}
  ~Pooled() override { leave(); }

  Step next(SimDuration patience) override {
    Step step = taken_.answer->next(patience);
    if (step.kind == StepKind::kToken) begun_ = true;
    if (step.kind != StepKind::kLost || std::exchange(begun_, true)) return step;
    auto other = owner_.ask(request_, taken_.by);
    if (!other) return step;
    leave();
    taken_ = std::move(*other);
    return {};
  }
  void commit() override { taken_.answer->commit(); }

 private:
  void leave() {
    taken_.answer.reset();
    owner_.count(taken_.by, -1);
  }

  PoolBackend& owner_;
  const Request request_;
  Taken taken_;
  bool begun_ = false;  // its reader has a token, or it was lost once
};

PoolBackend::PoolBackend(std::vector<std::unique_ptr<Backend>> all) : all_(std::move(all)) {
  CHECK(!all_.empty(), "a pool of none");
  under_way_.resize(all_.size());
}

tl::expected<std::unique_ptr<Answer>, Refused> PoolBackend::admit(Request request) {
  auto taken = ask(request, kNobody);
  if (!taken) return tl::unexpected(taken.error());
  return std::make_unique<Pooled>(*this, std::move(request), std::move(*taken));
}

tl::expected<PoolBackend::Taken, Refused> PoolBackend::ask(const Request& request, size_t but) {
  std::optional<Refused> first;
  for (const size_t i : idlest_first()) {
    if (i == but) continue;
    count(i, 1);  // before others look
    auto answer = all_[i]->admit(request);
    if (answer) return Taken{i, std::move(*answer)};
    count(i, -1);
    if (!first) first = answer.error();
    if (answer.error().why != Refusal::kBusy) return tl::unexpected(answer.error());
  }
  return tl::unexpected(first.value_or(Refused{Refusal::kBusy, "no other worker is there"}));
}

// Those that are there before those that are not.
std::vector<size_t> PoolBackend::idlest_first() const {
  std::vector<size_t> order(all_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<bool> away;
  for (const auto& each : all_) away.push_back(!each->ready());
  const std::lock_guard lock(mutex_);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return std::pair(away[i], under_way_[i]); });
  return order;
}

void PoolBackend::count(size_t by, int64_t change) {
  const std::lock_guard lock(mutex_);
  under_way_[by] += change;
}

bool PoolBackend::alive() const {
  return std::ranges::any_of(all_, [](const auto& each) { return each->alive(); });
}

bool PoolBackend::ready() const {
  return std::ranges::any_of(all_, [](const auto& each) { return each->ready(); });
}

// Of all: each has gone for a reason of its own.
std::string PoolBackend::end() const {
  if (alive()) return "";
  std::string out;
  for (const auto& each : all_) out += (out.empty() ? "" : "; ") + each->end();
  return out;
}

}  // namespace tombolo::serve
