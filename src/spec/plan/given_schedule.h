// A schedule that was found rather than named: what tombolo simulate --policy best writes into the
// Plan, so that what was predicted is what is performed.
//
// In the file actions and transfers stand in text, one line for a rank and one for a link:
//
//   "0F0 0F1 0B0 0B1"        computations of a rank in their order (action/action.h); receives
//                            where a recomputation waits for one. What must be sent and updated
//                            follows.
//   "1 F 0: 0.0 1.0 0.1"     boundary, direction and cell: pipeline.microbatch, ...
//   "1 F 0/1: 1.0 2.0"       where a part of cell 0 shares the boundary, pipeline 1 its first
//   "0F4;3B1 3F4;0B1"        which neighbours in a rank's order are co-executed
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "spec/action/action.h"

namespace tombolo::plan {

// One transfer of a shared boundary: of which pipeline, and which microbatch.
struct Transfer {
  int32_t replica = 0;
  int32_t microbatch = 0;
  auto operator<=>(const Transfer&) const = default;
};

// Which transfers own a boundary that pipelines of a DP-cell share, one after the other. The two
// directions are links of their own, as the two directions of a WAN are.
struct LinkOrder {
  int32_t boundary = 0;    // between stages `boundary` and `boundary` + 1
  bool gradients = false;  // towards stage `boundary`
  int32_t cell = 0;        // replicas cell x shape.cell and following
  std::vector<Transfer> transfers;
  int32_t first = -1;  // of a part of the cell: the first pipeline that shares it; -1: all share it

  // Which link it is: links stand in this order.
  auto key() const { return std::tuple{boundary, gradients, cell, first}; }
  bool operator==(const LinkOrder&) const = default;
};

// A forward and the backward right after it in the order of a rank, which run concurrently.
struct Pair {
  action::Action forward;
  action::Action backward;
  auto operator<=>(const Pair&) const = default;
};

struct GivenSchedule {
  std::string name;                                // of its family, as in "atlas, 6 in flight"
  std::vector<std::vector<action::Action>> ranks;  // ranks[r]
  std::vector<LinkOrder> links;                    // where DP-cells share the WAN in time
  std::vector<Seconds> release;  // per replica: its first forward begins no earlier; empty: at once
  std::vector<std::vector<Pair>> pairs = {};  // per rank, in its order; empty: none

  bool operator==(const GivenSchedule&) const = default;
};

std::string order_text(const std::vector<action::Action>& order);
std::string link_text(const LinkOrder& link);
std::string pairs_text(const std::vector<Pair>& pairs);
// Unusable, with the word that is wrong.
Result<std::vector<action::Action>> parse_order(std::string_view text);
Result<LinkOrder> parse_link(std::string_view text);
Result<std::vector<Pair>> parse_pairs(std::string_view text);

}  // namespace tombolo::plan
