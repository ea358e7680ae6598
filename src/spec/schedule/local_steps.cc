#include "spec/schedule/local_steps.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "spec/plan/gradient_groups.h"
#include "spec/schedule/sparse_exchange.h"

namespace tombolo::schedule {

std::optional<int64_t> OuterSteps::under_way(int64_t iteration) const {
  const int64_t last = (iteration - 1 + offset) / every * every - offset;
  const bool is_there = last >= 1 && last < iteration && last + delay >= iteration;
  return is_there ? std::optional(last) : std::nullopt;
}

std::vector<int32_t> fragments_of(std::span<const double> bytes, int64_t fragments) {
  const double all = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  std::vector<int32_t> out;
  double before = 0;
  for (const double each : bytes) {
    const double middle = all > 0 ? (before + each / 2) / all : 0;
    const auto place = static_cast<int64_t>(middle * static_cast<double>(fragments));
    out.push_back(static_cast<int32_t>(std::clamp<int64_t>(place, 0, fragments - 1)));
    before += each;
  }
  return out;
}

OuterSteps outer_steps(const plan::Plan& plan, int32_t stage, int32_t group) {
  CHECK(plan.exchange && plan.exchange->is_local(), "outer steps of a Plan without local ones");
  std::vector<double> bytes;
  for (const plan::GradientGroup& each : plan::gradient_groups(plan, stage))
    bytes.push_back(each.bytes.value);
  const int64_t every = plan.exchange->steps_in_use(), parts = plan.exchange->fragments_in_use();
  const int64_t fragment = fragments_of(bytes, parts).at(static_cast<size_t>(group));
  // The last fragment begins at multiples of `every`, the others evenly before.
  const int64_t offset = every - (fragment + 1) * every / parts;
  return {.every = every, .offset = offset, .delay = plan.exchange->delay_in_use()};
}

int64_t cycle_of(const plan::Plan& plan) {
  const bool local = plan.exchange && plan.exchange->is_local() && plan.exchanges_gradients();
  return local ? plan.exchange->steps_in_use() : 1;
}

GradientExchange outer_exchange(std::span<const int32_t> datacenters, int64_t elements,
                                int32_t group) {
  GradientExchange out = sparse_exchange(datacenters, elements, group);
  // What leaders get to add is summed by then.
  for (auto& round : out.rounds)
    std::erase_if(round, [](const ExchangeMessage& each) { return !each.is_update(); });
  std::erase_if(out.rounds, [](const auto& round) { return round.empty(); });
  return out;
}

GradientExchange outer_exchange(const plan::Plan& plan, int32_t stage, int64_t elements,
                                int32_t group) {
  return outer_exchange(datacenters_of(plan, stage), elements, group);
}

int32_t datacenters_with_replicas(const plan::Plan& plan) {
  return static_cast<int32_t>(by_datacenter(datacenters_of(plan, 0)).size());
}

double outer_rate(const plan::Plan& plan) {
  const plan::Exchange exchange = plan.exchange.value_or(plan::Exchange{});
  if (exchange.outer_rate) return *exchange.outer_rate;
  if (exchange.is_sparse_local()) return 1;
  const int32_t datacenters = datacenters_with_replicas(plan);
  return datacenters == 1 ? 0.4 : datacenters < 8 ? 0.6 : 0.8;
}

double inner_factor(const plan::Plan& plan, int32_t replica) {
  const size_t home = plan.datacenter_index(plan.rank_of(0, replica));
  int64_t own = 0, all = 0;
  for (int32_t each = 0; each < plan.replicas(); ++each) {
    const int64_t microbatches = plan.microbatches_of(each);
    all += microbatches;
    if (plan.datacenter_index(plan.rank_of(0, each)) == home) own += microbatches;
  }
  CHECK(own > 0, "replica {} computes nothing", replica);
  return real(all) / real(own);
}

}  // namespace tombolo::schedule
