#include "perform/launch/reach.h"

#include <algorithm>

#include "base/check.h"
#include "perform/runtime/neighbours.h"

namespace tombolo::launch {

Meeting meeting(const plan::Plan& plan, const std::vector<int32_t>& reach, int32_t rank,
                int32_t peer) {
  const auto ranks = static_cast<int32_t>(plan.ranks.size());
  CHECK(rank != peer && std::min(rank, peer) >= 0 && std::max(rank, peer) < ranks,
        "rank {} meets rank {} of {}", rank, peer, ranks);
  CHECK(reach.empty() || reach.size() == plan.ranks.size(), "the reach of {} of {} ranks",
        reach.size(), ranks);
  const bool near = plan.ranks[rank].datacenter == plan.ranks[peer].datacenter;
  const auto by = [&](int32_t of) {
    return reach.empty() ? Reach::kAll : static_cast<Reach>(reach[of]);
  };
  const auto [lower, higher] = std::minmax(rank, peer);
  for (const int32_t called : {higher, lower}) {
    if (by(called) == Reach::kAll) return {.dials = rank != called};
  }
  for (const int32_t called : {higher, lower}) {
    if (near && by(called) == Reach::kDatacenter) return {.dials = rank != called};
  }
  return {.spliced = true};
}

std::vector<std::pair<int32_t, int32_t>> spliced_links(const plan::Plan& plan,
                                                       const std::vector<int32_t>& reach) {
  std::vector<std::pair<int32_t, int32_t>> out;
  for (int32_t rank = 0; rank < static_cast<int32_t>(plan.ranks.size()); ++rank) {
    for (const int32_t peer : runtime::neighbours(plan, rank)) {
      if (rank < peer && meeting(plan, reach, rank, peer).spliced) out.emplace_back(rank, peer);
    }
  }
  return out;
}

std::string spliced_note(const std::vector<std::pair<int32_t, int32_t>>& links) {
  std::string text;
  for (const auto& [a, b] : links)
    text += fmt::format("{}{} and {}", text.empty() ? "" : ", ", a, b);
  return fmt::format(
      "links that go through this host, because neither of the two can be called: {}", text);
}

}  // namespace tombolo::launch
