#include "perform/launch/pairings.h"

#include <algorithm>

#include "base/check.h"
#include "perform/launch/rank_session.h"

namespace tombolo::launch {

Way way_of(const plan::Plan& plan, const std::vector<int32_t>& reach, int32_t rank, int32_t peer) {
  const auto [lower, higher] = std::minmax(rank, peer);
  const Meeting meets = meeting(plan, reach, lower, higher);
  if (meets.spliced) return Way::kSpliced;
  return meets.dials ? Way::kLowerCalls : Way::kHigherCalls;
}

Pairings::Pairings(const plan::Plan& plan, std::vector<int32_t> reach)
    : plan_(plan), reach_(std::move(reach)) {}

void Pairings::check(int32_t rank, int32_t peer) const {
  const auto ranks = static_cast<int32_t>(plan_.ranks.size());
  CHECK(rank != peer && std::min(rank, peer) >= 0 && std::max(rank, peer) < ranks,
        "rank {} and rank {} of {} are no pair", rank, peer, ranks);
}

const Pairings::Pair* Pairings::find(int32_t rank, int32_t peer) const {
  check(rank, peer);
  const auto at = pairs_.find(key(rank, peer));
  return at == pairs_.end() ? nullptr : &at->second;
}

std::optional<Way> Pairings::failed(int32_t rank, int32_t peer, Way way) {
  check(rank, peer);
  const auto [lower, higher] = key(rank, peer);
  const auto [at, is_new] = pairs_.try_emplace({lower, higher});
  Pair& pair = at->second;
  if (is_new) pair.way = way_of(plan_, reach_, rank, peer);
  if (way != pair.way || pair.failed.contains(way)) return std::nullopt;  // of a way before
  if (way == Way::kSpliced) {
    pair.waited.insert(rank);
    if (pair.waited.size() < 2) return std::nullopt;
  } else if (rank != (way == Way::kLowerCalls ? lower : higher)) {
    return std::nullopt;  // it was not its call
  }
  pair.failed.insert(way);
  if (!pair.first) pair.first = rank;
  const auto can_call = [&](Way next, int32_t called) {
    const bool nobody = !reach_.empty() && static_cast<Reach>(reach_[called]) == Reach::kNobody;
    return !pair.failed.contains(next) && !nobody;
  };
  if (can_call(Way::kLowerCalls, higher)) {
    pair.way = Way::kLowerCalls;
  } else if (can_call(Way::kHigherCalls, lower)) {
    pair.way = Way::kHigherCalls;
  } else if (!pair.failed.contains(Way::kSpliced)) {
    pair.way = Way::kSpliced;
  } else {
    return std::nullopt;
  }
  return pair.way;
}

bool Pairings::hopeless(int32_t rank, int32_t peer) const {
  const Pair* pair = find(rank, peer);
  return pair && pair->failed.contains(pair->way);
}

std::string Pairings::describe(int32_t rank, int32_t peer,
                               const std::vector<std::string>& addresses) const {
  CHECK(addresses.size() == plan_.ranks.size(), "{} addresses of {} ranks", addresses.size(),
        plan_.ranks.size());
  const Pair* pair = find(rank, peer);
  const auto [lower, higher] = key(rank, peer);
  const int32_t caller = pair && pair->first ? *pair->first : lower;
  const int32_t called = caller == lower ? higher : lower;
  std::string text = fmt::format("{} cannot reach {} at {}", rank_name(plan_, caller),
                                 rank_name(plan_, called), addresses[called]);
  if (!pair) return text;
  if (pair->failed.contains(Way::kLowerCalls) && pair->failed.contains(Way::kHigherCalls))
    text += ", nor the other way round";
  if (pair->failed.contains(Way::kSpliced)) text += ", nor through the launcher's host";
  return text;
}

}  // namespace tombolo::launch
