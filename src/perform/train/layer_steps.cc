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
  // The two halves of a product's backward pass; `again`: what brings the input of the second.
  void add_halves(LayerOperator input, LayerOperator weights, const std::string& name,
                  const std::vector<size_t>& again = {}) {
    const std::vector<size_t> before = last_;
    add(input, name + "d");
    std::vector<size_t> both = before;
    both.insert(both.end(), again.begin(), again.end());
    steps_.push_back({weights, name + "w", both});
  }
  // Beside the line: after the first step.
  std::vector<size_t> add_early(LayerOperator op, std::string name) {
    steps_.push_back({op, std::move(name), {0}, true, true});
    return {steps_.size() - 1};
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

}  // namespace

std::vector<LayerStep> forward_steps(Meeting meeting) {
  const bool rows = meeting == Meeting::kRows;
  const std::string leave = rows ? "RS" : "AR";
  Steps steps;
  steps.add(kLn1, "LN1");
  if (rows) steps.add_collective(kAg1, "AG1");
  steps.add(kQkv, "QKV");
  steps.add(kFa, "FA");
  steps.add(kProj, "PROJ");
  if (meeting != Meeting::kNone) steps.add_collective(kRs1, leave + "1");
  steps.add(kBda1, "BDA1");
  steps.add(kLn2, "LN2");
  if (rows) steps.add_collective(kAg2, "AG2");
  steps.add(kFc1, "FC1");
  steps.add(kAct, "ACT");
  steps.add(kFc2, "FC2");
  if (meeting != Meeting::kNone) steps.add_collective(kRs2, leave + "2");
  steps.add(kBda2, "BDA2");
  return steps.take();
}

std::vector<LayerStep> backward_steps(Meeting meeting, bool gather_again) {
  const bool rows = meeting == Meeting::kRows;
  const std::string leave = rows ? "bRS" : "bAR";
  Steps steps;
  const auto gathered = [&](LayerOperator op, const char* name) {
    return rows && gather_again ? steps.add_early(op, name) : std::vector<size_t>{};
  };
  steps.add(kBackBda2, "bBDA2");
  if (rows) steps.add_collective(kBackAg2, "bAG2");
  steps.add_halves(kFc2Input, kFc2Weights, "FC2");
  steps.add(kBackAct, "bACT");
  steps.add_halves(kFc1Input, kFc1Weights, "FC1", gathered(kAgainAg2, "gAG2"));
  if (meeting != Meeting::kNone) steps.add_collective(kBackRs2, leave + "2", true);
  steps.add(kBackLn2, "bLN2");
  steps.add(kBackBda1, "bBDA1");
  if (rows) steps.add_collective(kBackAg1, "bAG1");
  steps.add_halves(kProjInput, kProjWeights, "PROJ");
  steps.add(kBackFa, "bFA");
  steps.add_halves(kQkvInput, kQkvWeights, "QKV", gathered(kAgainAg1, "gAG1"));
  if (meeting != Meeting::kNone) steps.add_collective(kBackRs1, leave + "1", true);
  steps.add(kBackLn1, "bLN1");
  return steps.take();
}

}  // namespace tombolo::train
