// Orders of shared links for tests: what matters is that there is one, and that it can be done.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "spec/schedule/schedule.h"

namespace tombolo::schedule {

// Gives every shared link an order in which the transfers of each pipeline follow its sends; `rank`
// says which of the pipelines' n-th transfers goes first (the smallest; equal ones by pipeline).
using TransferRank = std::function<double(int32_t replica, size_t n)>;

inline void order_links_by(const TransferRank& rank, const PipelineShape& shape,
                           Schedule& schedule) {
  schedule.links.clear();
  for (LinkOrder& order : links_of(shape)) {
    const int32_t sender = order.boundary + (order.gradients ? 1 : 0);
    const auto kind =
        order.gradients ? action::ActionKind::kSendGradient : action::ActionKind::kSendActivation;
    std::vector<std::pair<double, Transfer>> transfers;
    for (const int32_t replica : sharers_of(order, shape)) {
      size_t n = 0;
      double before = 0;
      for (const action::Action& action :
           schedule.ranks[static_cast<size_t>(shape.rank_of(sender, replica))]) {
        if (action.kind != kind || action.stage != sender) continue;
        before = std::max(before, rank(replica, n++));
        transfers.push_back({before, {replica, action.microbatch}});
      }
    }
    std::stable_sort(transfers.begin(), transfers.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [when, transfer] : transfers) order.transfers.push_back(transfer);
    schedule.links.push_back(std::move(order));
  }
}

// The pipelines of a cell in turn.
inline void take_turns(const PipelineShape& shape, Schedule& schedule) {
  order_links_by([](int32_t, size_t n) { return static_cast<double>(n); }, shape, schedule);
}

// All of the first pipeline, then all of the next.
inline void one_after_the_other(const PipelineShape& shape, Schedule& schedule) {
  order_links_by([](int32_t replica, size_t) { return static_cast<double>(replica); }, shape,
                 schedule);
}

}  // namespace tombolo::schedule
