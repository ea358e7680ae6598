#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "spec/schedule/schedule.h"

namespace tombolo::schedule {

// Messages per iteration that leave a rank, for the one before or after it in the pipeline.
inline std::vector<int64_t> messages_sent(const Schedule& schedule) {
  std::vector<int64_t> out;
  for (const RankActions& order : schedule.ranks) {
    out.push_back(std::count_if(order.begin(), order.end(), [](const action::Action& action) {
      return action::is_send(action.kind);
    }));
  }
  return out;
}

}  // namespace tombolo::schedule
