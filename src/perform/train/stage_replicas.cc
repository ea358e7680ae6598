#include "perform/train/stage_replicas.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "perform/train/balanced_owners.h"

namespace tombolo::train {
namespace {

// These of them, in which `own` is.
kernels::Replicas some_of(const kernels::Replicas& all, size_t first, size_t count, size_t stride) {
  kernels::Replicas out = all;
  out.ranks.clear();
  for (size_t i = 0; i < count; ++i) out.ranks.push_back(all.ranks[first + i * stride]);
  out.own = (all.own - first) / stride;
  return out;
}

}  // namespace

Status StageReplicas::join(const kernels::Replicas& replicas, int32_t stage) {
  group_ = TRY(ReplicaGroup::join(replicas, stage));
  if (experts_.empty()) return {};
  const auto members = static_cast<size_t>(experts_.front()->members());
  const size_t count = replicas.ranks.size() / members, own = replicas.own % members;
  for (const auto& each : experts_) each->join(some_of(replicas, replicas.own - own, members, 1));
  if (count == 1) return {};
  expert_group_ =
      TRY(ReplicaGroup::join(some_of(replicas, own, count, members), stage, kExpertSumTensor));
  return {};
}

std::vector<StageReplicas::Holders> StageReplicas::all_holders() const {
  const int32_t replicas = plan_.replicas();
  std::vector<Holders> out = {{group_.get(), false, 1, replicas}};
  if (experts_.empty()) return out;
  const auto members = static_cast<int32_t>(experts_.front()->members());
  out.push_back({expert_group_.get(), true, members, replicas / members});
  return out;
}

std::vector<int32_t> StageReplicas::owners_of(const StageModule& module, Loads& loads) const {
  std::vector<int32_t> out(module.parameters().size());
  for (const Holders& holders : all_holders()) {
    std::vector<size_t> parameters;
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < out.size(); ++i) {
      const Parameter& parameter = module.parameters()[i];
      if (!experts_.empty() && parameter.of_expert != holders.of_experts) continue;
      parameters.push_back(i);
      sizes.push_back(parameter.value.numel());
    }
    std::vector<int64_t>& its = holders.of_experts ? loads.experts : loads.common;
    its.resize(static_cast<size_t>(holders.count));
    const std::vector<int32_t> owners = balanced_owners(sizes, its);
    for (size_t i = 0; i < parameters.size(); ++i)
      out[parameters[i]] = owners[i] * holders.stride + replica_ % holders.stride;
  }
  return out;
}

// One tensor of all gradients, which become views of it as they are copied: so no gradient is there
// twice, and none is copied back.
Status StageReplicas::sum(StageState& state) {
  for (const Holders& holders : all_holders()) {
    if (!holders.group) continue;
    const auto are_theirs = [&](const Parameter& parameter) {
      return experts_.empty() || parameter.of_expert == holders.of_experts;
    };
    int64_t size = 0;
    for (const Parameter& parameter : state.module().parameters())
      size += are_theirs(parameter) ? parameter.value.numel() : 0;
    at::Tensor all = at::empty({size}, at::kFloat);
    int64_t begin = 0;
    for (Parameter& parameter : state.module().parameters()) {
      if (!are_theirs(parameter)) continue;
      const int64_t end = begin + parameter.value.numel();
      at::Tensor part = all.slice(0, begin, end).view(parameter.value.sizes());
      part.copy_(parameter.value.grad());
      parameter.value.mutable_grad() = part;
      begin = end;
    }
    TRY(holders.group->sum(all));
  }
  return {};
}

Status StageReplicas::scatter(StageState& state, std::vector<at::Tensor>& sums) {
  for (const Parameter& parameter : state.module().parameters()) {
    if (!parameter.value.grad().defined())
      return failed(
          fmt::format("{} has no gradient: a sum before any backward pass", parameter.name));
  }
  for (const Holders& holders : all_holders()) TRY(scatter(holders, state, sums));
  return {};
}

Status StageReplicas::scatter(const Holders& holders, StageState& state,
                              std::vector<at::Tensor>& sums) {
  std::vector<Parameter>& parameters = state.module().parameters();
  const std::vector<int32_t>& owners = state.owners();
  const auto are_theirs = [&](size_t parameter) {
    return experts_.empty() || parameters[parameter].of_expert == holders.of_experts;
  };
  std::vector<int64_t> sizes(static_cast<size_t>(holders.count));
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (are_theirs(i)) sizes[holders.place_of(owners[i])] += parameters[i].value.numel();
  }
  std::vector<at::Tensor> parts;
  for (int64_t& size : sizes) {
    parts.push_back(at::empty({size}, at::kFloat));
    size = 0;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!are_theirs(i)) continue;
    const size_t owner = holders.place_of(owners[i]);
    const at::Tensor& value = parameters[i].value;
    at::Tensor part = parts[owner].narrow(0, sizes[owner], value.numel()).view(value.sizes());
    sizes[owner] += value.numel();
    part.copy_(value.grad());
    parameters[i].value.mutable_grad() = at::Tensor();
    if (owners[i] != replica_) continue;
    if (sums[i].defined()) part.add_(sums[i]);  // of microbatches before, once
    sums[i] = part;
  }
  return holders.group ? holders.group->scatter(parts) : Status{};
}

Status StageReplicas::gather_values(const StageState& state) {
  const std::vector<StageState::Shared> all = state.shared();
  for (const Holders& holders : all_holders()) {
    if (!holders.group) continue;
    std::vector<ReplicaGroup::Owned> owned;
    for (size_t i = 0; i < all.size(); ++i) {
      if (experts_.empty() || state.module().parameters()[i].of_expert == holders.of_experts)
        owned.push_back({all[i].values, holders.place_of(all[i].owner)});
    }
    TRY(holders.group->gather(owned));
  }
  return {};
}

Status StageReplicas::gather(const at::Tensor& values, int32_t owner) {
  const ReplicaGroup::Owned owned{values, static_cast<size_t>(owner)};
  return group_->gather({&owned, 1});
}

// Each number becomes that of the replica that owns it.
Status StageReplicas::exchange(const Holders& holders, std::vector<Number>& numbers) {
  if (!holders.group) return {};
  std::vector<ReplicaGroup::Owned> owned;
  for (int32_t place = 0; place < holders.count; ++place) {
    const auto count = std::count_if(numbers.begin(), numbers.end(), [&](const Number& each) {
      return holders.place_of(each.owner) == static_cast<size_t>(place);
    });
    owned.push_back({at::zeros({count}, at::kDouble), static_cast<size_t>(place)});
  }
  const auto for_each = [&](const auto& call) {
    std::vector<size_t> next(owned.size());
    for (Number& each : numbers) {
      const size_t place = holders.place_of(each.owner);
      call(each.value, owned[place].values.data_ptr<double>()[next[place]++]);
    }
  };
  for_each([](double number, double& there) { there = number; });
  std::vector<ReplicaGroup::Owned> there_are;
  for (const ReplicaGroup::Owned& each : owned) {
    if (each.values.numel() > 0) there_are.push_back(each);
  }
  TRY(holders.group->gather(there_are));
  for_each([](double& number, double there) { number = there; });
  return {};
}

// Of experts each member of a group has its part: the first group's sums stand for all.
Result<double> StageReplicas::sum_of(const std::vector<Number>& numbers) {
  const auto total = [](const std::vector<Number>& some) {
    return std::accumulate(some.begin(), some.end(), 0.0,
                           [](double sum, const Number& each) { return sum + each.value; });
  };
  std::vector<double> totals;
  for (const Holders& holders : all_holders()) {
    std::vector<Number> theirs;
    std::copy_if(numbers.begin(), numbers.end(), std::back_inserter(theirs),
                 [&](const Number& each) {
                   return experts_.empty() || each.of_expert == holders.of_experts;
                 });
    const bool shared_out = plan_.parallelism.zero > 0;
    if (shared_out) TRY(exchange(holders, theirs));
    totals.push_back(total(theirs));
  }
  if (experts_.empty() || !group_) return std::accumulate(totals.begin(), totals.end(), 0.0);
  std::vector<Number> of_members(static_cast<size_t>(experts_.front()->members()));
  for (size_t i = 0; i < of_members.size(); ++i) {
    of_members[i].owner = static_cast<int32_t>(i);
    if (static_cast<int32_t>(i) == replica_) of_members[i].value = totals[1];
  }
  TRY(exchange({group_.get(), false, 1, plan_.replicas()}, of_members));
  return totals[0] + total(of_members);
}

}  // namespace tombolo::train
