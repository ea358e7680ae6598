// Pairings: how pairs of neighbours try to link, and what is tried next where they do not.
//
// reach.h chooses a first way from what the launcher sees. Between two ranks the network may be
// another one: private addresses beside the launcher, a firewall with rules of its own. So whoever
// calls in vain says so, and the pair tries the other direction, then a splice at the coordinator.
// Where that fails as well, what people are told names the pair.
//
// A way fails when the one who calls says so; a splice fails when both have, because until then the
// other one may still be loading. Pure: words of ranks go in, orders come out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "perform/launch/reach.h"
#include "spec/plan/plan.h"

namespace tombolo::launch {

enum class Way : int32_t { kLowerCalls = 0, kHigherCalls = 1, kSpliced = 2 };

// What reach.h says of two ranks, as a way. Either of them may stand first.
Way way_of(const plan::Plan& plan, const std::vector<int32_t>& reach, int32_t rank, int32_t peer);

class Pairings {
 public:
  // `reach` is by rank, as all were told.
  Pairings(const plan::Plan& plan, std::vector<int32_t> reach);

  // `rank` tried in vain to reach its neighbour that way. The way that both should try now, where
  // that is a new one; nothing where this was said before, or no way is left.
  std::optional<Way> failed(int32_t rank, int32_t peer, Way way);

  // Every way was tried in vain.
  bool hopeless(int32_t rank, int32_t peer) const;
  // "rank 0 (oregon) cannot reach rank 1 (paris) at 10.0.0.7:41000, nor the other way round".
  // `addresses` are by rank.
  std::string describe(int32_t rank, int32_t peer, const std::vector<std::string>& addresses) const;

 private:
  struct Pair {
    Way way = Way::kLowerCalls;
    std::set<Way> failed;
    std::set<int32_t> waited;      // who found nobody at the splice
    std::optional<int32_t> first;  // whose call failed first
  };
  static std::pair<int32_t, int32_t> key(int32_t a, int32_t b) { return std::minmax(a, b); }
  void check(int32_t rank, int32_t peer) const;
  const Pair* find(int32_t rank, int32_t peer) const;

  const plan::Plan& plan_;
  const std::vector<int32_t> reach_;
  std::map<std::pair<int32_t, int32_t>, Pair> pairs_;  // in trouble, the lower rank first
};

}  // namespace tombolo::launch
