#include "perform/exchange/outer_step_scheduler.h"

#include <algorithm>

#include "base/check.h"
#include "perform/exchange/sparse_updates.h"
#include "spec/schedule/sparse_exchange.h"

namespace tombolo::exchange {

OuterStepScheduler::OuterStepScheduler(const plan::Plan& plan, int32_t rank,
                                       int64_t first_iteration,
                                       kernels::ParameterGroups& parameters)
    : plan_(plan),
      rank_(rank),
      first_iteration_(first_iteration),
      parameters_(parameters),
      exchange_(plan.exchange.value_or(plan::Exchange{})),
      step_{.rate = schedule::outer_rate(plan),
            .momentum = exchange_.outer_momentum_in_use(),
            .blend = exchange_.blend_in_use()} {
  if (exchange_.is_sparse_local()) compressor_.emplace(compress_options(exchange_));
}

void OuterStepScheduler::add(int32_t stage, int32_t group) {
  const schedule::OuterSteps steps = schedule::outer_steps(plan_, stage, group);
  const bool arrived = steps.under_way(first_iteration_).has_value();
  const bool is_new = groups_.emplace(std::pair{stage, group}, Group{steps, arrived, {}}).second;
  CHECK(is_new, "group {} of stage {} is there twice", group, stage);
}

GroupKey OuterStepScheduler::end_of(GroupKey key) const {
  key.iteration += at(key).steps.delay;
  return key;
}

std::unique_ptr<OuterUpdates> OuterStepScheduler::begin(const GroupKey& key) {
  CHECK(!at(key).arrived, "group {} of stage {} begins an outer step within one", key.group,
        key.stage);
  const auto role = schedule::sparse_role(plan_, rank_, key.stage, key.group);
  const OuterUpdates::Options options{.datacenters = static_cast<size_t>(role.datacenters),
                                      .own = static_cast<size_t>(role.datacenter),
                                      .number = at(key).steps.number(key.iteration),
                                      .exchange = exchange_};
  const std::span<const float> anchor = parameters_.outer_state(key.stage, key.group).anchor;
  std::vector<float> change;
  if (role.leads) {
    change = parameters_.parameters(key.stage, key.group);
    for (size_t i = 0; i < change.size(); ++i) change[i] = anchor[i] - change[i];
  }
  const bool keeps = role.leads && exchange_.keeps_residuals();
  const std::span<float> residual =
      keeps ? parameters_.residual(key.stage, key.group) : std::span<float>{};
  return std::make_unique<OuterUpdates>(options, std::ssize(anchor), std::move(change), residual,
                                        compressor_ ? &*compressor_ : nullptr);
}

void OuterStepScheduler::arrive(const GroupKey& begun, const OuterUpdates& updates) {
  Group& group = at(begun);
  std::vector<float> mean = updates.mean();
  const std::span<float> kept = parameters_.outer_state(begun.stage, begun.group).arrived;
  if (group.steps.delay > 0) {
    CHECK(kept.size() == mean.size(), "room for {} numbers of {}", kept.size(), mean.size());
    std::copy(mean.begin(), mean.end(), kept.begin());
  } else {
    group.mean = std::move(mean);
  }
  group.arrived = true;
}

Status OuterStepScheduler::end(const GroupKey& key) {
  Group& group = at(key);
  CHECK(group.arrived, "an outer step of group {} of stage {} ends before all is there", key.group,
        key.stage);
  group.arrived = false;
  const update::OuterState state = parameters_.outer_state(key.stage, key.group);
  std::vector<float> parameters = parameters_.parameters(key.stage, key.group);
  const std::vector<float> mean = std::exchange(group.mean, {});
  update::outer_step(step_, group.steps.delay > 0 ? std::span<const float>(state.arrived) : mean,
                     state, parameters);
  return parameters_.set_parameters(key.stage, key.group, parameters);
}

}  // namespace tombolo::exchange
