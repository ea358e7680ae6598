#include "spec/schedule/policy.h"

#include <array>

namespace tombolo::schedule {
namespace {

constexpr std::array kPolicies{
    Policy{"gpipe", "Huang et al., GPipe, NeurIPS 2019", gpipe},
    Policy{"1f1b", "Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021",
           one_forward_one_backward},
    Policy{"interleaved",
           "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using "
           "Megatron-LM, SC 2021",
           interleaved},
    Policy{"varuna",
           "Athlur et al., Varuna: Scalable, Low-cost Training of Massive Deep Learning Models, "
           "EuroSys 2022",
           nullptr, varuna_rules},
    Policy{"zb-h1", "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024", zb_h1},
    Policy{"zb-v", "Qi et al., Pipeline Parallelism with Controllable Memory, NeurIPS 2024", zb_v},
    Policy{"w",
           "Wang et al., Hiding Communication Cost in Distributed LLM Training via Micro-batch "
           "Co-execution (DHelix), 2024",
           w_shape, nullptr, false, w_shape_pairs},
    Policy{"dualpipev", "DeepSeek-AI, DualPipe (DualPipeV), github.com/deepseek-ai/DualPipe, 2025",
           dualpipe_v, nullptr, false, dualpipe_v_pairs},
    Policy{"atlas",
           "Palak et al., Improving training time and GPU utilization in geo-distributed language "
           "model training (Atlas), 2024",
           nullptr, atlas_rules, true},
};

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
    order.push_back({action::ActionKind::kRecompute, stage, microbatch});
  }
  order.push_back({action::ActionKind::kBackward, stage, microbatch});
}

void append_pair(const Shape& shape, const action::Action& forward, int32_t backward_stage,
                 int32_t microbatch, Order& order, std::vector<Pair>& pairs) {
  const action::Action backward{action::ActionKind::kBackward, backward_stage, microbatch};
  if (!shape.pairs) {
    order.push_back(forward);
    return append_backward(shape, backward_stage, microbatch, order);
  }
  if (shape.recomputes(backward_stage)) {
    order.push_back({action::ActionKind::kRecompute, backward_stage, microbatch});
  }
  order.insert(order.end(), {forward, backward});
  pairs.push_back({forward, backward});
}

void append_backward_input(const Shape& shape, int32_t stage, int32_t microbatch, Order& order) {
  if (shape.recomputes(stage)) {
    order.push_back({action::ActionKind::kRecompute, stage, microbatch});
  }
  order.push_back({action::ActionKind::kBackwardInput, stage, microbatch});
}

}  // namespace tombolo::schedule
