#include "perform/runtime/emulated_groups.h"

#include <cmath>

#include "base/check.h"
#include "spec/schedule/schedule.h"

namespace tombolo::runtime {
namespace {

constexpr int64_t kNumbers = 1 << 12;  // what is made up is smaller, so that sums are exact

// What replica 0 makes up; replica r has r more.
float made_up(int64_t seed, int64_t element) {
  return static_cast<float>((seed + element) % kNumbers);
}

// Between two shares of a pass; the parts of a pass add up to it.
SimDuration part_of(SimDuration pass, double from, double to) {
  const auto at = [&](double share) { return round_to_ns(seconds(pass) * share); };
  return at(to) - at(from);
}

}  // namespace

EmulatedGroups::EmulatedGroups(const plan::Plan& plan, int32_t rank, Clock& clock,
                               bool check_every_number, std::function<void(int32_t)> updated)
    : clock_(clock),
      check_every_number_(check_every_number),
      updated_(std::move(updated)),
      replica_(plan.ranks[rank].replica),
      replicas_(plan.replicas()) {
  for (const int32_t stage : schedule::shape_of(plan).stages_at(plan.ranks[rank].stage)) {
    Held& held = stages_[stage];
    held.update = round_to_ns(plan.stages[stage].cost.update);
    for (const plan::GradientGroup& each : plan::gradient_groups(plan, stage)) {
      const double floats = each.bytes.value / plan.run.byte_scale / sizeof(float);
      held.groups.push_back({each, std::max<int64_t>(std::llround(floats), 1)});
    }
  }
}

EmulatedGroups::Held& EmulatedGroups::held(int32_t stage) {
  const auto found = stages_.find(stage);
  CHECK(found != stages_.end(), "stage {} is not of this rank", stage);
  return found->second;
}

Status EmulatedGroups::forward(int32_t stage, SimTime start, SimDuration duration,
                               const Wait& wait) {
  const std::vector<Group>& groups = held(stage).groups;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (watcher_) TRY(watcher_->await_ready(stage, static_cast<int32_t>(g)));
    const double end = g + 1 < groups.size() ? groups[g + 1].in_plan.needed_at : 1;
    wait(g == 0 ? start : clock_.now(), part_of(duration, groups[g].in_plan.needed_at, end));
  }
  return {};
}

void EmulatedGroups::backward(int32_t stage, SimTime start, SimDuration duration,
                              const Wait& wait) {
  Held& own = held(stage);
  if (!std::exchange(own.is_last, false)) return wait(start, duration);
  double done = 0;
  for (size_t g = own.groups.size(); g-- > 0;) {
    Group& group = own.groups[g];
    const auto number = static_cast<int32_t>(g);
    const SimTime since = done == 0 ? start : clock_.now();
    group.gradient.resize(static_cast<size_t>(group.elements));
    const int64_t first = seed(iteration_, stage, number);
    for (int64_t i = 0; i < group.elements; ++i)
      group.gradient[static_cast<size_t>(i)] = made_up(first, i) + static_cast<float>(replica_);
    wait(since, part_of(duration, done, group.in_plan.complete_at));
    done = group.in_plan.complete_at;
    if (watcher_) watcher_->complete(stage, number);
  }
}

Status EmulatedGroups::last_backward(int32_t stage) {
  held(stage).is_last = true;
  return {};
}

std::span<float> EmulatedGroups::gradient(int32_t stage, int32_t group) {
  return held(stage).groups.at(static_cast<size_t>(group)).gradient;
}

Status EmulatedGroups::update_group(int64_t iteration, int32_t stage, int32_t group) {
  Held& own = held(stage);
  Group& its = own.groups.at(static_cast<size_t>(group));
  const SimTime start = clock_.now();
  TRY(during(
      check(its, seed(iteration, stage, group)),
      fmt::format("updating group {} of stage {} in iteration {}", group, stage, iteration)));
  its.gradient = {};
  const auto groups = static_cast<double>(own.groups.size());
  const auto before = static_cast<double>(own.updated);
  clock_.sleep_until(start + part_of(own.update, before / groups, (before + 1) / groups));
  if (++own.updated < own.groups.size()) return {};
  own.updated = 0;
  updated_(stage);
  return {};
}

// Neighbouring groups, stages and iterations begin elsewhere.
int64_t EmulatedGroups::seed(int64_t iteration, int32_t stage, int32_t group) const {
  return iteration * 1009 + stage * 307 + group * 41;
}

Status EmulatedGroups::check(const Group& group, int64_t seed) const {
  const int64_t all = std::ssize(group.gradient);
  const auto n = static_cast<float>(replicas_);
  const int64_t step = check_every_number_ ? 1 : std::max<int64_t>(all / 16, 1);
  for (int64_t i = 0; i < all; i += step) {
    const float expected = n * made_up(seed, i) + n * (n - 1) / 2;
    const float found = group.gradient[static_cast<size_t>(i)];
    if (found != expected)
      return failed(fmt::format("element {} of the sum is {}, expected {}", i, found, expected));
  }
  return {};
}

}  // namespace tombolo::runtime
