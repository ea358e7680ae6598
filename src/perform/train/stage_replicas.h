// What the replicas of a stage sum and give each other: gradients, and values of parameters that one of them
// updates for all (ZeRO; stage_state.h).
//
// All replicas hold what is not an expert. Of experts that replicas share out (expert_exchange.h) each has
// a part; every `stride`-th replica has the same part, and those sum among themselves.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "perform/train/expert_exchange.h"
#include "perform/train/replica_group.h"
#include "perform/train/stage_state.h"
#include "spec/plan/plan.h"

namespace tombolo::train {

class StageReplicas {
 public:
  // `experts`: of each strand; none where every replica has all of them. Both outlive it.
  using Experts = std::vector<std::unique_ptr<ExpertExchange>>;
  StageReplicas(const plan::Plan& plan, int32_t replica, const Experts& experts)
      : plan_(plan), replica_(replica), experts_(experts) {}

  // All replicas call it, and all that follows, in the same order. kLostPeer where one is lost.
  Status join(const kernels::Replicas& replicas, int32_t stage);
  bool have_met() const { return group_ != nullptr; }

  // Which replica updates each parameter, of as much as each: the same numbers on all of them for what all
  // hold. `loads`: what replicas update already, of parameters and of experts; both grow.
  struct Loads {
    std::vector<int64_t> common, experts;
  };
  std::vector<int32_t> owners_of(const StageModule& module, Loads& loads) const;

  // Gradients become their sums. Every parameter has one.
  Status sum(StageState& state);
  // Each replica adds the sum of what it updates to its `sums`, by parameter, and no gradient stays.
  Status scatter(StageState& state, std::vector<at::Tensor>& sums);
  // The values that passes read, from the replicas that update them.
  Status gather_values(const StageState& state);
  // One tensor, from its owner.
  Status gather(const at::Tensor& values, int32_t owner);

  // A number per parameter of the stages, from the replica that updates it; returns the sum over all
  // parameters, with the same bits on all replicas.
  struct Number {
    double value = 0;
    int32_t owner = 0;
    bool of_expert = false;
  };
  Result<double> sum_of(const std::vector<Number>& numbers);

 private:
  // Replicas that hold the same parameters: all, or every `stride`-th.
  struct Holders {
    ReplicaGroup* group = nullptr;  // none where no other replica does
    bool of_experts = false;
    int32_t stride = 1, count = 1;

    size_t place_of(int32_t replica) const { return static_cast<size_t>(replica / stride); }
  };
  std::vector<Holders> all_holders() const;
  static Status exchange(const Holders& holders, std::vector<Number>& numbers);
  Status scatter(const Holders& holders, StageState& state, std::vector<at::Tensor>& sums);

  const plan::Plan& plan_;
  const int32_t replica_;
  const Experts& experts_;
  std::unique_ptr<ReplicaGroup> group_, expert_group_;
};

}  // namespace tombolo::train
