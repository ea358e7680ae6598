// How long collectives take on y scale-up domains of x GPUs, with or without a spine between rails.
//
// Each GPU has C_F inside its domain and one network port of C_S. With full bisection (Clos,
// rail-optimised) a port reaches every GPU; rail-only, it reaches its own rail, and bytes for
// another rail in another domain are forwarded by a GPU of the own domain. Bandwidth alone counts:
// no latency, no overlap with computation, both directions of a link at once.
//
// Each law has a name, a source and a domain in collective_laws(), and a section in
// docs/laws/rail_collectives.md, which also says where the paper's text is wrong.
//
// Source: Wang et al., "How to Build Low-cost Networks for Large Language Models (without
// Sacrificing Performance)?", 2023, section 3.2, appendices A and D. "Ours" marks what follows from
// it without standing there.
#pragma once

#include <span>
#include <string_view>

#include "base/units.h"
#include "predict/network/fabric.h"

namespace tombolo::network {

struct Grid {
  int64_t domain = 8;                  // x: GPUs per domain that take part
  int64_t domains = 1;                 // y
  BytesPerSecond scale_up = 900_GBps;  // C_F of a GPU: NVLink 4, as the paper counts it
  BytesPerSecond port = 50_GBps;       // C_S of a GPU: 400 Gbps

  double gpus() const { return static_cast<double>(domain) * static_cast<double>(domains); }
};

Status check(const Grid& grid);

// Law `hierarchical-all-gather` (Eq. 1): first along the rails, then inside the domains.
//   T = (y-1) D / (x y C_S) + (x-1) D / (x C_F)
// D is what every GPU holds at the end. It never leaves the rails, so fabrics do not differ.
Seconds hierarchical_all_gather(const Grid& grid, Bytes gathered);

// Law `all-gather-cut` (Eq. 8 and 9 of appendix A, in closed form): no all-gather is faster, since
// some part of the GPUs must receive what the rest holds through the links that join the two.
//   T = D / (x y) max of
//     (y-1) / C_S                  one domain against the rest    if y > 1
//     (x y - 1) / (C_F + C_S)      one GPU against the rest       if x > 1 (rail-only: and y > 1)
//     (x-1) / C_F                  one rail against the rest      rail-only, if x > 1
// The paper's closed form is the first line alone: domain_cut_binds() says where it holds. The two
// others are ours, and equal to the maximum over all 2^(x y) cuts wherever that can be counted.
Seconds all_gather_cut(Fabric fabric, const Grid& grid, Bytes gathered);

// C_F / C_S >= y (x-1) / (y-1), for y > 1: the first line above is the largest.
bool domain_cut_binds(const Grid& grid);

// All-to-all: every GPU sends every GPU a shard of message / (x y); its own stays.
//
// Law `all-to-all-full-bisection` (Eq. 20), D the shard:
//   T = max((x-1) D / C_F, x (y-1) D / C_S)
// Law `all-to-all-rail-only` (Eq. 21): inside the domains with shards of y D, then along the rails
// with shards of x D, one after the other:
//   T = y (x-1) D / C_F + x (y-1) D / C_S
// Law `all-to-all-rail-only-overlapped` (ours): the same bytes, forwarded in pieces while others
// cross the network. No schedule is faster: a byte for another rail must change rails inside some
// domain, a byte for another domain must cross the network.
//   T = max(y (x-1) D / C_F, x (y-1) D / C_S)
Seconds all_to_all_full_bisection(const Grid& grid, Bytes message);
Seconds all_to_all_rail_only(const Grid& grid, Bytes message);
Seconds all_to_all_rail_only_overlapped(const Grid& grid, Bytes message);

// What rail-only loses where the network binds the full bisection: y (x-1) C_S / (x (y-1) C_F),
// about C_S / C_F. (Eq. 22 is printed upside down.) 0 for a single domain.
double all_to_all_slowdown(const Grid& grid);

struct CollectiveLaw {
  std::string_view name;
  std::string_view operation;  // "all-gather", "all-to-all"
  Fabric fabric;
  std::string_view source;
  std::string_view holds;  // where it holds
  Seconds (*time)(const Grid& grid, Bytes message);
};
std::span<const CollectiveLaw> collective_laws();

}  // namespace tombolo::network
