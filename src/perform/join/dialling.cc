#include "perform/join/dialling.h"

#include <algorithm>

#include "base/check.h"
#include "perform/kernels/neighbours.h"
#include "spec/plan/rank_name.h"

namespace tombolo::join {

Dialling dialling_of(const plan::Plan& plan, const std::vector<int32_t>& reach, int32_t rank,
                     int32_t peer) {
  const auto ranks = static_cast<int32_t>(plan.ranks.size());
  const auto [lower, higher] = std::minmax(rank, peer);
  CHECK(lower != higher && lower >= 0 && higher < ranks, "rank {} meets rank {} of {}", rank, peer,
        ranks);
  CHECK(reach.empty() || reach.size() == plan.ranks.size(), "the reach of {} of {} ranks",
        reach.size(), ranks);
  const auto by = [&](int32_t of) {
    return reach.empty() ? Reach::kAll : static_cast<Reach>(reach[of]);
  };
  if (by(higher) == Reach::kAll) return Dialling::kLowerCalls;
  if (by(lower) == Reach::kAll) return Dialling::kHigherCalls;
  const bool near = plan.ranks[lower].datacenter == plan.ranks[higher].datacenter;
  if (near && by(higher) == Reach::kDatacenter) return Dialling::kLowerCalls;
  if (near && by(lower) == Reach::kDatacenter) return Dialling::kHigherCalls;
  return Dialling::kSpliced;
}

std::vector<std::pair<int32_t, int32_t>> spliced_links(const plan::Plan& plan,
                                                       const std::vector<int32_t>& reach) {
  std::vector<std::pair<int32_t, int32_t>> out;
  for (int32_t rank = 0; rank < static_cast<int32_t>(plan.ranks.size()); ++rank) {
    for (const int32_t peer : kernels::neighbours(plan, rank)) {
      if (rank < peer && dialling_of(plan, reach, rank, peer) == Dialling::kSpliced)
        out.emplace_back(rank, peer);
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

DialAttempts::DialAttempts(const plan::Plan& plan, std::vector<int32_t> reach)
    : plan_(plan), reach_(std::move(reach)) {}

void DialAttempts::check(int32_t rank, int32_t peer) const {
  const auto ranks = static_cast<int32_t>(plan_.ranks.size());
  CHECK(rank != peer && std::min(rank, peer) >= 0 && std::max(rank, peer) < ranks,
        "rank {} and rank {} of {} are no pair", rank, peer, ranks);
}

const DialAttempts::Pair* DialAttempts::find(int32_t rank, int32_t peer) const {
  check(rank, peer);
  const auto at = pairs_.find(key(rank, peer));
  return at == pairs_.end() ? nullptr : &at->second;
}

std::optional<Dialling> DialAttempts::failed(int32_t rank, int32_t peer, Dialling dialling) {
  check(rank, peer);
  const auto [lower, higher] = key(rank, peer);
  const auto [at, is_new] = pairs_.try_emplace({lower, higher});
  Pair& pair = at->second;
  if (is_new) pair.dialling = dialling_of(plan_, reach_, rank, peer);
  if (dialling != pair.dialling || pair.failed.contains(dialling))
    return std::nullopt;  // of a dialling before
  if (dialling == Dialling::kSpliced) {
    pair.waited.insert(rank);
    if (pair.waited.size() < 2) return std::nullopt;
  } else if (rank != (dialling == Dialling::kLowerCalls ? lower : higher)) {
    return std::nullopt;  // it was not its call
  }
  pair.failed.insert(dialling);
  if (!pair.first) pair.first = rank;
  const auto can_call = [&](Dialling next, int32_t called) {
    const bool nobody = !reach_.empty() && static_cast<Reach>(reach_[called]) == Reach::kNobody;
    return !pair.failed.contains(next) && !nobody;
  };
  if (can_call(Dialling::kLowerCalls, higher)) {
    pair.dialling = Dialling::kLowerCalls;
  } else if (can_call(Dialling::kHigherCalls, lower)) {
    pair.dialling = Dialling::kHigherCalls;
  } else if (!pair.failed.contains(Dialling::kSpliced)) {
    pair.dialling = Dialling::kSpliced;
  } else {
    return std::nullopt;
  }
  return pair.dialling;
}

bool DialAttempts::hopeless(int32_t rank, int32_t peer) const {
  const Pair* pair = find(rank, peer);
  return pair && pair->failed.contains(pair->dialling);
}

std::string DialAttempts::describe(int32_t rank, int32_t peer,
                                   const std::vector<std::string>& addresses) const {
  CHECK(addresses.size() == plan_.ranks.size(), "{} addresses of {} ranks", addresses.size(),
        plan_.ranks.size());
  const Pair* pair = find(rank, peer);
  const auto [lower, higher] = key(rank, peer);
  const int32_t caller = pair && pair->first ? *pair->first : lower;
  const int32_t called = caller == lower ? higher : lower;
  std::string text = fmt::format("{} cannot reach {} at {}", plan::rank_name(plan_, caller),
                                 plan::rank_name(plan_, called), addresses[called]);
  if (!pair) return text;
  if (pair->failed.contains(Dialling::kLowerCalls) && pair->failed.contains(Dialling::kHigherCalls))
    text += ", nor the other way round";
  if (pair->failed.contains(Dialling::kSpliced)) text += ", nor through the launcher's host";
  return text;
}

}  // namespace tombolo::join
