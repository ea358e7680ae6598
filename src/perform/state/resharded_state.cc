#include "perform/state/resharded_state.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "perform/update/sparse.h"

namespace tombolo::state {
namespace {

constexpr std::string_view kResidual = ".residual.";
constexpr std::string_view kIn = ".in.";
constexpr const char* kAnchor = ".outer.anchor";

// What stands before such an end.
std::optional<std::string> before(const std::string& name, std::string_view end) {
  if (end.empty() || !name.ends_with(end)) return std::nullopt;
  return name.substr(0, name.size() - end.size());
}

int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  return elements;
}

std::vector<float> floats_of(const kernels::NamedTensor& tensor) {
  std::vector<float> out(tensor.bytes.size() / sizeof(float));
  std::memcpy(out.data(), tensor.bytes.data(), out.size() * sizeof(float));
  return out;
}

template <class Number>
kernels::Payload bytes_of_numbers(const std::vector<Number>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

// into += sign x more.
Status add(kernels::NamedTensor& into, const kernels::NamedTensor& more, float sign) {
  if (into.dtype != "F32" || more.dtype != "F32" || into.bytes.size() != more.bytes.size()) {
    return unusable(
        fmt::format("the checkpoint's {} and {} are no F32 of one shape", into.name, more.name));
  }
  std::vector<float> sum = floats_of(into);
  const std::vector<float> numbers = floats_of(more);
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += sign * numbers[i];
  into.bytes = bytes_of_numbers(sum);
  return {};
}

}  // namespace

TensorShapes shapes_of(const Manifest& manifest) {
  TensorShapes out;
  for (const Shard& shard : manifest.shards)
    for (const TensorPlace& place : shard.tensors) out.emplace(place.name, place.shape);
  return out;
}

bool is_left_behind(const Shard& shard, const plan::Plan& plan) {
  const auto is_here = [&](const std::string& datacenter) {
    return std::any_of(plan.ranks.begin(), plan.ranks.end(), [&](const layout::Placement& each) {
      return each.datacenter == datacenter;
    });
  };
  return std::all_of(shard.tensors.begin(), shard.tensors.end(), [&](const TensorPlace& place) {
    for (const std::string_view mark : {kResidual, kIn}) {
      const size_t at = place.name.rfind(mark);
      if (at != std::string::npos) return !is_here(place.name.substr(at + mark.size()));
    }
    return false;
  });
}

ReshardedState::ReshardedState(const plan::Plan& plan, int32_t rank, TensorShapes shapes,
                               kernels::TensorSource read)
    : shapes_(std::move(shapes)),
      read_(std::move(read)),
      own_(plan.datacenter_of(rank).name),
      in_(kernels::parameter_suffix(plan, rank)),
      is_local_(kernels::steps_locally(plan)) {
  const int32_t position = plan.ranks[static_cast<size_t>(rank)].stage;
  is_first_ = plan.datacenter_of(plan.rank_of(position, 0)).name == own_;
  std::set<std::string> here;
  for (const int32_t each : plan.replicas_of(position)) here.insert(plan.datacenter_of(each).name);
  for (const auto& [name, shape] : shapes_) {
    const size_t at = name.rfind(kResidual);
    if (at == std::string::npos) continue;
    const std::string datacenter = name.substr(at + kResidual.size());
    if (!kernels::holds_residuals(plan)) {
      notes_.insert("what datacenters had not sent is lost: this job exchanges all there is");
    } else if (!here.contains(datacenter)) {
      left_[name.substr(0, at)].push_back(datacenter);
    }
  }
}

Result<kernels::NamedTensor> ReshardedState::read(const std::string& name) {
  if (const auto parameter = before(name, std::string(kResidual) + own_))
    return residual(name, *parameter);
  if (is_local_ && in_.empty() && has(name + std::string(kIn) + own_))
    return as(name, name + std::string(kIn) + own_);
  if (has(name)) return read_(name);
  if (const auto first = before(name, in_)) {
    notes_.insert(own_ + " begins where the checkpoint's first datacenter is");
    return as(name, *first);
  }
  if (const auto parameter = before(name, kAnchor)) return as(name, *parameter);
  if (const auto parameter = before(name, ".outer.momentum"); parameter && has(*parameter))
    return zeros(name, *parameter);
  if (const auto parameter = before(name, ".outer.arrived")) return arrived(name, *parameter);
  if (const auto counted = before(name, ".last_steps")) return up_to_date(name, *counted);
  return read_(name);
}

Result<kernels::NamedTensor> ReshardedState::residual(const std::string& name,
                                                      const std::string& parameter) {
  const auto left = left_.find(parameter);
  const bool inherits = is_first_ && left != left_.end();
  if (!has(name) && !has(parameter)) return read_(name);
  kernels::NamedTensor sum = has(name) ? TRY(read_(name)) : zeros(name, parameter);
  if (!inherits) return sum;
  for (const std::string& datacenter : left->second) {
    const kernels::NamedTensor more = TRY(read_(parameter + std::string(kResidual) + datacenter));
    TRY(add(sum, more, 1));
    notes_.insert(
        fmt::format("what {} had not sent is added to what {} has to send", datacenter, own_));
  }
  return sum;
}

// The mean of an outer step under way, as if the first datacenter were alone.
Result<kernels::NamedTensor> ReshardedState::arrived(const std::string& name,
                                                     const std::string& parameter) {
  kernels::NamedTensor out =
      TRY(as(name, has(parameter + ".outer.anchor") ? parameter + ".outer.anchor" : parameter));
  const kernels::NamedTensor now = TRY(read_(parameter));
  TRY(add(out, now, -1));
  return out;
}

Result<kernels::NamedTensor> ReshardedState::up_to_date(const std::string& name,
                                                        const std::string& counted) {
  const size_t optimizer = counted.rfind('.');
  if (optimizer == std::string::npos || !has(counted.substr(0, optimizer)) ||
      !has(counted + ".step"))
    return read_(name);
  const kernels::NamedTensor count = TRY(read_(counted + ".step"));
  int64_t step = 0;
  if (count.bytes.size() != sizeof step) return read_(name);
  std::memcpy(&step, count.bytes.data(), sizeof step);
  const int64_t blocks =
      update::sparse_blocks(elements_of(shapes_.at(counted.substr(0, optimizer))));
  const std::vector<uint32_t> all(static_cast<size_t>(blocks), static_cast<uint32_t>(step));
  return kernels::NamedTensor{name, "U32", {blocks}, bytes_of_numbers(all)};
}

Result<kernels::NamedTensor> ReshardedState::as(const std::string& name, const std::string& other) {
  kernels::NamedTensor out = TRY(read_(other));
  out.name = name;
  return out;
}

kernels::NamedTensor ReshardedState::zeros(const std::string& name,
                                           const std::string& parameter) const {
  const std::vector<int64_t>& shape = shapes_.at(parameter);
  return {name, "F32", shape,
          kernels::Payload(static_cast<size_t>(elements_of(shape)) * sizeof(float))};
}

}  // namespace tombolo::state
