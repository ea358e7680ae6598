#include "schedule/policy.h"

#include <array>

namespace tombolo::schedule {
namespace {

constexpr std::array<Policy, 2> kPolicies{
    {{"gpipe", "Huang et al., GPipe, NeurIPS 2019", gpipe},
     {"1f1b", "Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021",
      one_forward_one_backward}}};

}  // namespace

std::span<const Policy> policies() { return kPolicies; }

const Policy* find_policy(std::string_view name) {
  for (const Policy& policy : kPolicies) {
    if (policy.name == name) return &policy;
  }
  return nullptr;
}

void append_backward(const Shape& shape, int32_t stage, int32_t microbatch, Order& order) {
  if (shape.recomputes(stage)) {
    order.push_back({trace::ActionKind::kRecompute, stage, microbatch});
  }
  order.push_back({trace::ActionKind::kBackward, stage, microbatch});
}

}  // namespace tombolo::schedule
