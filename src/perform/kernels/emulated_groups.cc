#include "perform/kernels/emulated_groups.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "perform/compress/quantise.h"
#include "perform/kernels/state_layout.h"
#include "spec/schedule/schedule.h"
#include "spec/schedule/sparse_exchange.h"

namespace tombolo::kernels {
namespace {

constexpr int64_t kNumbers = 1 << 12;  // what is made up is smaller, so that sums are exact

// What replica 0 makes up; replica r has r more.
float made_up(int64_t seed, int64_t element) {
  return static_cast<float>((seed + element) % kNumbers);
}

// Between -1 and 1, as if drawn: the finaliser of MurmurHash3 (Appleby, 2011) of a counter. It has no
// more bits than bf16, so that nothing is lost on its way.
float noise(uint32_t counter) {
  counter = (counter ^ (counter >> 16)) * 0x85ebca6bu;
  counter = (counter ^ (counter >> 13)) * 0xc2b2ae35u;
  counter ^= counter >> 16;
  const float number = static_cast<float>(static_cast<int32_t>(counter)) * 0x1p-31f;
  return compress::from_bf16(compress::to_bf16(number));
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
      has_parameters_(holds_residuals(plan) || steps_locally(plan)),
      writes_(has_parameters_ && writes_parameters(plan, rank)),
      bytes_of_number_(has_parameters_ ? static_cast<size_t>(plan::gradient_bytes(plan))
                                       : sizeof(float)),
      updated_(std::move(updated)),
      replica_(plan.ranks[rank].replica),
      replicas_(plan.replicas()),
      suffix_(parameter_suffix(plan, rank)),
      residual_suffix_(".residual." + plan.datacenter_of(rank).name) {
  for (const int32_t stage : schedule::shape_of(plan).stages_at(plan.ranks[rank].stage)) {
    stages_[stage].update = round_to_ns(plan.cost_on(rank, stage).update);
    for (const plan::GradientGroup& each : plan::gradient_groups(plan, stage))
      add_group(plan, rank, stage, each);
  }
}

void EmulatedGroups::add_group(const plan::Plan& plan, int32_t rank, int32_t stage,
                               const plan::GradientGroup& in_plan) {
  std::vector<Group>& groups = stages_[stage].groups;
  const auto shards = real(plan.ranks[static_cast<size_t>(rank)].shards);
  const double numbers =
      shards * in_plan.bytes.value / plan.run.byte_scale / static_cast<double>(bytes_of_number_);
  groups.push_back({in_plan, std::max<int64_t>(std::llround(numbers), 1)});
  if (!has_parameters_) return;
  Group& group = groups.back();
  const auto number = static_cast<int32_t>(groups.size()) - 1;
  const auto size = static_cast<size_t>(group.elements);
  const plan::Exchange exchange = plan.exchange.value_or(plan::Exchange{});
  group.name = fmt::format("stages.{}.groups.{}.emulated", stage, number);
  group.parameters.resize(size);
  if (exchange.keeps_residuals() && schedule::sparse_role(plan, rank, stage, number).leads)
    group.residual.resize(size);
  if (!exchange.is_local()) return;
  group.anchor.resize(size);
  if (exchange.outer_momentum_in_use() > 0) group.momentum.resize(size);
  if (exchange.delay_in_use() > 0) group.arrived.resize(size);
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
    make_up(stage, number);
    wait(since, part_of(duration, done, group.in_plan.complete_at));
    done = group.in_plan.complete_at;
    if (watcher_) watcher_->complete(stage, number);
  }
}

void EmulatedGroups::make_up(int32_t stage, int32_t number) {
  Group& group = held(stage).groups[static_cast<size_t>(number)];
  group.gradient.resize(static_cast<size_t>(group.elements));
  const int64_t first = seed(iteration_, stage, number);
  if (has_parameters_) {
    // The replicas' counters begin far apart.
    const uint32_t place = static_cast<uint32_t>(first * replicas_ + replica_) * 0x9e3779b9u;
    for (size_t i = 0; i < group.gradient.size(); ++i)
      group.gradient[i] = noise(place + static_cast<uint32_t>(i));
    return;
  }
  for (int64_t i = 0; i < group.elements; ++i)
    group.gradient[static_cast<size_t>(i)] = made_up(first, i) + static_cast<float>(replica_);
}

Status EmulatedGroups::last_backward(int32_t stage) {
  held(stage).is_last = true;
  return {};
}

std::span<float> EmulatedGroups::gradient(int32_t stage, int32_t group) {
  return held(stage).groups.at(static_cast<size_t>(group)).gradient;
}

Status EmulatedGroups::update_group(int64_t iteration, int32_t stage, int32_t group) {
  Group& its = held(stage).groups.at(static_cast<size_t>(group));
  const SimTime start = clock_.now();
  if (has_parameters_) {
    for (size_t i = 0; i < its.parameters.size(); ++i) its.parameters[i] -= its.gradient[i];
    end_update(stage, start);
    return {};
  }
  TRY(during(
      check(its, seed(iteration, stage, group)),
      fmt::format("updating group {} of stage {} in iteration {}", group, stage, iteration)));
  its.gradient = {};
  end_update(stage, start);
  return {};
}

std::span<float> EmulatedGroups::residual(int32_t stage, int32_t group) {
  return held(stage).groups.at(static_cast<size_t>(group)).residual;
}

Status EmulatedGroups::update_group_sparsely(int64_t, int32_t stage, int32_t group,
                                             const update::SparseGradient& gradient) {
  const SimTime start = clock_.now();
  update::sparse_sgd(1, gradient, held(stage).groups.at(static_cast<size_t>(group)).parameters);
  end_update(stage, start);
  return {};
}

update::OuterState EmulatedGroups::outer_state(int32_t stage, int32_t group) {
  Group& its = held(stage).groups.at(static_cast<size_t>(group));
  return {its.anchor, its.momentum, its.arrived};
}

std::vector<float> EmulatedGroups::parameters(int32_t stage, int32_t group) {
  return held(stage).groups.at(static_cast<size_t>(group)).parameters;
}

Status EmulatedGroups::set_parameters(int32_t stage, int32_t group, std::span<const float> values) {
  std::vector<float>& to = held(stage).groups.at(static_cast<size_t>(group)).parameters;
  std::copy(values.begin(), values.end(), to.begin());
  return {};
}

// Groups last alike, and together as long as the stage's update.
void EmulatedGroups::end_update(int32_t stage, SimTime start) {
  Held& own = held(stage);
  const auto groups = static_cast<double>(own.groups.size());
  const auto before = static_cast<double>(own.updated);
  clock_.sleep_until(start + part_of(own.update, before / groups, (before + 1) / groups));
  if (++own.updated < own.groups.size()) return;
  own.updated = 0;
  updated_(stage);
}

// With the name of each in checkpoints: parameters, residuals, and what all replicas share.
template <class Stages, class Call>
void EmulatedGroups::for_each_kept(Stages& stages, bool own, bool shared, const Call& call) const {
  for (auto& [stage, held] : stages) {
    for (auto& group : held.groups) {
      if (own) call(group.name + suffix_, group.parameters);
      call(group.name + residual_suffix_, group.residual);
      if (!shared) continue;
      call(group.name + ".outer.anchor", group.anchor);
      call(group.name + ".outer.momentum", group.momentum);
      call(group.name + ".outer.arrived", group.arrived);
    }
  }
}

void EmulatedGroups::add_views(std::vector<TensorView>& out) const {
  for_each_kept(
      stages_, writes_, replica_ == 0,
      [&](const std::string& name, const std::vector<float>& values) {
        if (values.empty()) return;
        out.push_back({name, "F32", {std::ssize(values)}, std::as_bytes(std::span(values))});
      });
}

// With local steps what replicas share, else their parameters.
void EmulatedGroups::add_to(RunningDigest& digest) const {
  for (const auto& [stage, own] : stages_) {
    for (const Group& group : own.groups) {
      const bool local = !group.anchor.empty();
      for (const auto* each : {local ? &group.anchor : &group.parameters, &group.momentum}) {
        if (each->empty()) continue;
        const auto bytes = std::as_bytes(std::span(*each));
        digest.add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      }
    }
  }
}

Status EmulatedGroups::load(const TensorSource& tensors) {
  const auto take = [&](const std::string& name, std::vector<float>& to) -> Status {
    if (to.empty()) return {};
    const NamedTensor tensor = TRY(tensors(name));
    if (tensor.dtype != "F32" || tensor.bytes.size() != to.size() * sizeof(float)) {
      return unusable(
          fmt::format("the checkpoint's tensor \"{}\" is no F32 [{}]", tensor.name, to.size()));
    }
    std::memcpy(to.data(), tensor.bytes.data(), tensor.bytes.size());
    return {};
  };
  Status status;
  for_each_kept(stages_, true, true, [&](const std::string& name, std::vector<float>& to) {
    if (status) status = take(name, to);
  });
  return status;
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
    if (std::isnan(found)) continue;  // parameters of fewer bytes took its place
    if (found != expected)
      return failed(fmt::format("element {} of the sum is {}, expected {}", i, found, expected));
  }
  return {};
}

}  // namespace tombolo::kernels
