#include "spec/schedule/pass_parts.h"

#include <algorithm>

namespace tombolo::schedule {

using action::ActionKind;

const plan::PassCommunication* communication_of(const plan::StageCost& cost, ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return &cost.forward_communication;
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return &cost.backward_communication;
    case ActionKind::kRecompute:
      return &cost.recompute_communication;
    default:
      return nullptr;
  }
}

PassShares shares_of(const plan::PassCommunication& inside, SimDuration pass) {
  using enum ActionKind;
  PassShares shares{.computes = pass, .communicates = {}};
  for (const auto& [kind, time] :
       {std::pair{kDataCommunication, inside.data}, std::pair{kExpertCommunication, inside.expert},
        std::pair{kContextCommunication, inside.context},
        std::pair{kTensorCommunication, inside.tensor}}) {
    const SimDuration share = std::min(shares.computes, round_to_ns(time));
    if (share.ns == 0) continue;
    shares.communicates.emplace_back(kind, share);
    shares.computes = shares.computes - share;
  }
  std::reverse(shares.communicates.begin(), shares.communicates.end());
  return shares;
}

void add_pass(const PassShares& shares, SimDuration before, const trace::Interval& pass,
              std::vector<trace::Interval>& intervals) {
  const SimDuration after = before + (pass.end - pass.start);
  const auto at = [&](SimDuration of_pass) {
    return pass.start + (std::clamp(of_pass, before, after) - before);
  };
  SimDuration done = shares.computes;
  intervals.push_back(pass);
  intervals.back().end = at(done);
  for (const auto& [kind, share] : shares.communicates) {
    const SimTime begin = at(done);
    done = done + share;
    if (begin == at(done)) continue;
    intervals.push_back({.lane = trace::Lane::kCollective,
                         .rank = pass.rank,
                         .action = {kind, pass.action.stage, pass.action.microbatch},
                         .iteration = pass.iteration,
                         .start = begin,
                         .end = at(done),
                         .origin = trace::PassPart{pass.action},
                         .part = pass.part});
  }
}

std::optional<SumsBegin> sums_begin(const plan::Plan& plan, int32_t rank,
                                    const RankActions& order) {
  SimDuration hidden;
  for (const action::Action& action : order) {
    if (action.kind == ActionKind::kReduceGradients)
      hidden += round_to_ns(plan.cost_on(rank, action.stage).reduce_hidden);
  }
  const auto first = std::find_if(order.begin(), order.end(), [](const action::Action& action) {
    return action.kind == ActionKind::kReduceGradients;
  });
  if (hidden.ns == 0) return std::nullopt;
  SimDuration span;
  SumsBegin begin;
  for (auto at = first; at != order.begin() && span < hidden;) {
    --at;
    if (action::is_communication(at->kind)) continue;
    begin.place = static_cast<size_t>(at - order.begin());
    span += durations_of(plan.cost_on(rank, at->stage)).of(at->kind);
  }
  begin.after = std::max(SimDuration{}, span - hidden);
  return begin;
}

}  // namespace tombolo::schedule
