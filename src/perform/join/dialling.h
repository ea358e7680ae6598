// Which of two neighbours calls the other, and what is tried next where that fails.
//
// The lower rank calls if the higher one can be reached, else the higher one if the lower can. Where
// neither can be reached, both call the coordinator, which splices the two calls (link/splice.h).
//
// The launcher finds out who can be reached: it opens a connection to where each rank of another
// host says that it listens. That is the coordinator's view. Two ranks behind one router reach each
// other although it reaches neither, so a rank that it cannot reach counts as reachable inside its
// datacenter, where nothing better is known; a rank that takes no calls at all says so itself.
//
// Between two ranks the network may be another one: private addresses, a firewall with rules of its
// own. So a rank reports a call that failed, and the pair tries the other direction, then a splice
// at the coordinator. Where that fails as well, the message to people names the pair.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "spec/plan/plan.h"

namespace tombolo::join {

// By whom a rank can be called. Numbers are those of control messages.
enum class Reach : int32_t { kAll = 0, kDatacenter = 1, kNobody = 2 };

// Who of a pair calls whom. Numbers are those of control messages.
enum class Dialling : int32_t {
  kLowerCalls = 0,   // the lower rank calls the higher one
  kHigherCalls = 1,  // the other way round
  kSpliced = 2,      // both call the coordinator
};

// How two ranks link, either of which may be named first. `reach` is by rank, as the launcher told
// all (Start); empty: every rank can be reached. All ranks come to the same answer.
Dialling dialling_of(const plan::Plan& plan, const std::vector<int32_t>& reach, int32_t rank,
                     int32_t peer);

// The links that need a splice, the lower rank first, in ascending order.
std::vector<std::pair<int32_t, int32_t>> spliced_links(const plan::Plan& plan,
                                                       const std::vector<int32_t>& reach);
// A line for people.
std::string spliced_note(const std::vector<std::pair<int32_t, int32_t>>& links);

// What pairs of neighbours have tried. A call fails when the rank that calls reports it; a splice
// fails when both ranks have, because until then the other one may still be loading. Pure: reports
// of ranks go in, orders come out.
class DialAttempts {
 public:
  // `reach` is by rank, as all were told.
  DialAttempts(const plan::Plan& plan, std::vector<int32_t> reach);

  // `rank` failed to reach its neighbour that way. Returns what both should try now, where that is
  // new; nullopt where this was reported before, or no way is left.
  std::optional<Dialling> failed(int32_t rank, int32_t peer, Dialling dialling);

  // Every way was tried, and failed.
  bool hopeless(int32_t rank, int32_t peer) const;
  // "rank 0 (oregon) cannot reach rank 1 (paris) at 10.0.0.7:41000, nor the other way round".
  // `addresses` are by rank.
  std::string describe(int32_t rank, int32_t peer, const std::vector<std::string>& addresses) const;

 private:
  struct Pair {
    Dialling dialling = Dialling::kLowerCalls;
    std::set<Dialling> failed;
    std::set<int32_t> waited;      // alone at the splice, and gave up
    std::optional<int32_t> first;  // whose call failed first
  };
  static std::pair<int32_t, int32_t> key(int32_t a, int32_t b) { return std::minmax(a, b); }
  void check(int32_t rank, int32_t peer) const;
  const Pair* find(int32_t rank, int32_t peer) const;

  const plan::Plan& plan_;
  const std::vector<int32_t> reach_;
  std::map<std::pair<int32_t, int32_t>, Pair> pairs_;  // in trouble, the lower rank first
};

}  // namespace tombolo::join
