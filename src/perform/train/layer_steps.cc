#include "perform/train/layer_steps.h"

#include <utility>

namespace tombolo::train {
namespace {

using enum LayerOperator;

class Steps {
 public:
  // After what was added last `in line`, or as given.
  void add(LayerOperator op, std::string name) { in_line({op, std::move(name), last_}); }
  void add_collective(LayerOperator op, std::string name, bool async = false) {
    in_line({op, std::move(name), last_, true, async});
  }
  void add_exchange(LayerOperator op, std::string name) {
    in_line({op, std::move(name), last_, true, false, true});
  }
  // The two halves of a product's backward pass; `again`: what brings the input of the second.
  void add_halves(LayerOperator input, LayerOperator weights, const std::string& name,
                  const std::vector<size_t>& again = {}) {
    const std::vector<size_t> before = last_;
    add(input, name + "d");
    std::vector<size_t> both = before;
    both.insert(both.end(), again.begin(), again.end());
    steps_.push_back({weights, name + "w", both});
  }
  // Not part of the chain: last() does not wait for it.
  std::vector<size_t> add_early(LayerOperator op, std::string name,
                                const std::vector<size_t>& after) {
    steps_.push_back({op, std::move(name), after, true, true});
    return {steps_.size() - 1};
  }
  const std::vector<size_t>& last() const { return last_; }
  // A second line from there; returns where the first one ends.
  std::vector<size_t> branch(std::vector<size_t> from) {
    return std::exchange(last_, std::move(from));
  }
  void wait_for(const std::vector<size_t>& others) {
    last_.insert(last_.end(), others.begin(), others.end());
  }
  std::vector<LayerStep> take() { return std::move(steps_); }

 private:
  void in_line(LayerStep step) {
    steps_.push_back(std::move(step));
    last_ = {steps_.size() - 1};
  }
  std::vector<LayerStep> steps_;
  std::vector<size_t> last_;
};

void add_experts(Steps& steps, const LayerForm& form, const std::string& prefix) {
  const std::vector<size_t> input = steps.last();
  steps.add(kRouter, prefix + "ROUTER");
  steps.add(kPermute, prefix + "PERMUTE");
  if (form.exchange) steps.add_exchange(kA2a1, prefix + "A2A1");
  steps.add(kExpertFc1, prefix + "EFC1");
  steps.add(kExpertAct, prefix + "EACT");
  steps.add(kExpertFc2, prefix + "EFC2");
  if (form.exchange) steps.add_exchange(kA2a2, prefix + "A2A2");
  steps.add(kUnpermute, prefix + "UNPERMUTE");
  if (!form.shared) return;
  const std::vector<size_t> routed = steps.branch(input);
  steps.add(kSharedFc1, prefix + "SFC1");
  steps.add(kSharedAct, prefix + "SACT");
  if (prefix.empty() || form.shared_gate || form.norm_after) steps.add(kSharedFc2, prefix + "SFC2");
  steps.wait_for(routed);
}

void add_back_experts(Steps& steps, const LayerForm& form) {
  const std::vector<size_t> gradient = steps.last();
  steps.add(kBackUnpermute, "bUNPERMUTE");
  if (form.exchange) steps.add_exchange(kBackA2a2, "bA2A2");
  steps.add_halves(kExpertFc2Input, kExpertFc2Weights, "EFC2");
  steps.add(kBackExpertAct, "bEACT");
  steps.add_halves(kExpertFc1Input, kExpertFc1Weights, "EFC1");
  if (form.exchange) steps.add_exchange(kBackA2a1, "bA2A1");
  steps.add(kBackPermute, "bPERMUTE");
  steps.add_halves(kRouterInput, kRouterWeights, "ROUTER");
  if (!form.shared) return;
  const std::vector<size_t> routed = steps.branch(gradient);
  steps.add_halves(kSharedFc2Input, kSharedFc2Weights, "SFC2");
  steps.add(kBackSharedAct, "bSACT");
  steps.add_halves(kSharedFc1Input, kSharedFc1Weights, "SFC1");
  steps.wait_for(routed);
}

// `prefix`: of a second computation, which ends with what the backward pass reads last: of a block the product at its
// end, the sum and the residual are of no use to it, unless a norm stands between them.
void add_forward(Steps& steps, const LayerForm& form, const std::string& prefix) {
  const bool rows = form.meeting == Meeting::kRows, meets = form.meeting != Meeting::kNone;
  const bool to_the_end = prefix.empty() || form.norm_after;
  const std::string leave = prefix + (rows ? "RS" : "AR");
  steps.add(kLn1, prefix + "LN1");
  if (rows) steps.add_collective(kAg1, prefix + "AG1");
  steps.add(kQkv, prefix + "QKV");
  steps.add(kFa, prefix + "FA");
  steps.add(kProj, prefix + "PROJ");
  if (meets) steps.add_collective(kRs1, leave + "1");
  steps.add(kBda1, prefix + "BDA1");
  steps.add(kLn2, prefix + "LN2");
  if (rows) steps.add_collective(kAg2, prefix + "AG2");
  if (form.experts) {
    add_experts(steps, form, prefix);
  } else {
    steps.add(kFc1, prefix + "FC1");
    steps.add(kAct, prefix + "ACT");
    if (to_the_end) steps.add(kFc2, prefix + "FC2");
  }
  if (!to_the_end) return;
  if (meets) steps.add_collective(kRs2, leave + "2");
  steps.add(kBda2, prefix + "BDA2");
}

}  // namespace

std::vector<LayerStep> forward_steps(const LayerForm& form) {
  Steps steps;
  add_forward(steps, form, "");
  return steps.take();
}

std::vector<LayerStep> backward_steps(const LayerForm& form) {
  const bool rows = form.meeting == Meeting::kRows, meets = form.meeting != Meeting::kNone;
  const std::string leave = rows ? "bRS" : "bAR";
  Steps steps;
  if (form.again) add_forward(steps, form, "r");
  steps.add(kBackBda2, "bBDA2");
  const std::vector<size_t> begin = steps.last();
  const auto gathered = [&](LayerOperator op, const char* name) {
    return rows && form.gather_again ? steps.add_early(op, name, begin) : std::vector<size_t>{};
  };
  if (rows) steps.add_collective(kBackAg2, "bAG2");
  if (form.experts) {
    add_back_experts(steps, form);
  } else {
    steps.add_halves(kFc2Input, kFc2Weights, "FC2");
    steps.add(kBackAct, "bACT");
    steps.add_halves(kFc1Input, kFc1Weights, "FC1", gathered(kAgainAg2, "gAG2"));
  }
  if (meets) steps.add_collective(kBackRs2, leave + "2", true);
  steps.add(kBackLn2, "bLN2");
  steps.add(kBackBda1, "bBDA1");
  if (rows) steps.add_collective(kBackAg1, "bAG1");
  steps.add_halves(kProjInput, kProjWeights, "PROJ");
  steps.add(kBackFa, "bFA");
  steps.add_halves(kQkvInput, kQkvWeights, "QKV", gathered(kAgainAg1, "gAG1"));
  if (meets) steps.add_collective(kBackRs1, leave + "1", true);
  steps.add(kBackLn1, "bLN1");
  return steps.take();
}

}  // namespace tombolo::train
