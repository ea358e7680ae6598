#include "spec/schedule/passes.h"

namespace tombolo::schedule {

using action::Action;
using action::ActionKind;

namespace {

// What the computations of one rank receive and send.
class Communication {
 public:
  Communication(const PipelineShape& shape, RecomputeWhen when) : shape_(shape), when_(when) {}

  void receives(const Action& action) {
    if (action.kind == ActionKind::kForward && shape_.crosses(action.stage - 1)) {
      add(ActionKind::kReceiveActivation, action);
    }
    const bool recomputes_first =
        when_ == RecomputeWhen::kWithGradient && shape_.recomputes(action.stage);
    const bool opens_backward =
        recomputes_first ? action.kind == ActionKind::kRecompute : is_backward(action);
    if (opens_backward && shape_.crosses(action.stage)) add(ActionKind::kReceiveGradient, action);
  }
  void computes(const Action& action) { out_.push_back(action); }
  void sends(const Action& action) {
    if (action.kind == ActionKind::kForward && shape_.crosses(action.stage)) {
      add(ActionKind::kSendActivation, action);
    }
    if (is_backward(action) && shape_.crosses(action.stage - 1)) {
      add(ActionKind::kSendGradient, action);
    }
  }
  RankActions take() { return std::move(out_); }

 private:
  static bool is_backward(const Action& action) {
    return action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput;
  }
  void add(ActionKind kind, const Action& of) { out_.push_back({kind, of.stage, of.microbatch}); }

  const PipelineShape& shape_;
  const RecomputeWhen when_;
  RankActions out_;
};

}  // namespace

std::vector<RankActions> add_communication(const std::vector<RankActions>& compute,
                                           const PipelineShape& shape, RecomputeWhen when,
                                           const std::vector<std::vector<Pair>>& pairs) {
  std::vector<RankActions> ranks;
  for (size_t r = 0; r < compute.size(); ++r) {
    Communication out(shape, when);
    const std::vector<Pair> of_rank = pairs.empty() ? std::vector<Pair>{} : pairs[r];
    size_t next_pair = 0;
    for (size_t i = 0; i < compute[r].size(); ++i) {
      const bool is_pair = next_pair < of_rank.size() && i + 1 < compute[r].size() &&
                           of_rank[next_pair] == Pair{compute[r][i], compute[r][i + 1]};
      const size_t last = i + (is_pair ? 1 : 0);
      for (size_t k = i; k <= last; ++k) out.receives(compute[r][k]);
      for (size_t k = i; k <= last; ++k) out.computes(compute[r][k]);
      for (size_t k = i; k <= last; ++k) out.sends(compute[r][k]);
      if (is_pair) ++next_pair;
      i = last;
    }
    ranks.push_back(out.take());
  }
  return ranks;
}

void add_update(std::vector<RankActions>& ranks, const PipelineShape& shape) {
  for (int32_t rank = 0; rank < shape.ranks(); ++rank) {
    const std::vector<int32_t> stages = shape.stages_at(rank / shape.replicas);
    for (const int32_t stage : stages) {
      if (shape.replicas > 1) ranks[rank].push_back({ActionKind::kReduceGradients, stage, -1});
    }
    for (const int32_t stage : stages) ranks[rank].push_back({ActionKind::kUpdate, stage, -1});
  }
}

}  // namespace tombolo::schedule
