// The messages with which the replicas of a stage sum a group of its gradients, where they lie in
// several datacenters. The simulator and the runtime both obey this value.
//
// Two levels, so that each datacenter sends no more over the WAN than one replica would:
//
//   1. inside   Each datacenter cuts the elements into as many chunks as it has replicas. Each of
//               them gets its own chunk from all others and adds: it holds the datacenter's sum of
//               one chunk.
//   2. across   Those who hold the same elements in different datacenters exchange them. Chunks of
//               datacenters with unequal numbers of replicas overlap: the elements are cut at the
//               borders of all, and each piece is exchanged separately. So every replica sends over
//               the WAN, each its part, whatever the numbers.
//                 two        each sends the other its piece, and both add
//                 more       each owns a part of the piece, gets that part from the others and
//                            adds, and hands the sum out: directly, or around a ring of the
//                            datacenters (ring_exchange.h)
//   3. inside   Each hands its chunk of the sum to all others of its datacenter. With ZeRO 1, which
//               shards the optimizer's state in the same chunks, it hands them the parameters that
//               it made of the sum instead.
//
// Every element is summed by one replica, whose result the others take over, or by two that add the
// same two numbers (x + y and y + x are the same bits): all replicas end with the same bits. With
// one replica in each datacenter only the second level is left.
//
// Rounds: what a replica sends in a round is what it holds when the round begins for it, that is
// when it has received all that earlier rounds send it. What comes in a round is added, or put in
// its place, in the order of the list. A replica waits for no other messages than those.
//
// Bytes, where the elements divide: a replica of n in its datacenter sends 2 (n - 1)/n of them to
// the others there; a datacenter of two sends all of them once over the WAN, one of D > 2
// 2 (D - 1)/D of them, in n equal parts. No algorithm sends less (Patarasuk and Yuan, JPDC 69(2),
// 2009, per level). Cost: O(messages), of which there are n (n - 1) for each datacenter and step
// inside.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/plan/plan.h"

namespace tombolo::schedule {

struct ExchangeMessage {
  int32_t from = 0;  // the replica
  int32_t to = 0;
  int64_t first = 0;  // of the elements that it carries
  int64_t count = 0;  // at least 1
  bool adds = false;  // to what the receiver has; otherwise it takes its place
  // Instead of the elements, the sparse update that this datacenter makes of them
  // (sparse_exchange.h); datacenters count in the order in which they first appear.
  int32_t update_of = -1;

  bool parameters = false;  // new ones, in the precision that passes read

  bool is_update() const { return update_of >= 0; }
  bool operator==(const ExchangeMessage&) const = default;
};

struct GradientExchange {
  std::vector<std::vector<ExchangeMessage>> rounds;  // none is empty
};

// How more than two datacenters exchange what each has summed.
enum class Across {
  kDirect,  // everyone with everyone: two latencies, whatever their number
  kRing,    // with neighbours alone: 2 (D - 1) latencies, over D of the D (D - 1) ways
};

// datacenters[r] says where replica r lies, by any number; their order in a ring is that in which
// they first appear. Sharded: by ZeRO 1, within each datacenter.
GradientExchange gradient_exchange(std::span<const int32_t> datacenters, int64_t elements,
                                   Across across = Across::kDirect, bool sharded = false);

// The first and the last level alone: each datacenter ends with its own sum.
GradientExchange sum_inside(std::span<const int32_t> datacenters, int64_t elements);

// Of a stage of a Plan: its replicas, and the way across that is faster by the arithmetic of
// docs/laws/gradient_exchange.md for all its gradients at once, with links as the cluster file has
// them (what was measured is for predictions alone). `elements` are those of one shard. Where
// [exchange] has mode = "sparse", of one group: sparse_exchange.h. With local steps, what is summed
// every step: sum_inside.
GradientExchange gradient_exchange(const plan::Plan& plan, int32_t stage, int64_t elements,
                                   int32_t group = 0);
Across faster_across(const plan::Plan& plan, int32_t stage);

// By replica, the number of its datacenter in the Plan.
std::vector<int32_t> datacenters_of(const plan::Plan& plan, int32_t stage);

// Replicas by datacenter, in the order in which datacenters first appear.
std::vector<std::vector<int32_t>> by_datacenter(std::span<const int32_t> datacenters);

// Bytes of a message of one shard: what its elements take as gradients or as parameters, or what a
// sparse update of as many is expected to take.
double bytes_of(const plan::Plan& plan, const ExchangeMessage& message);

}  // namespace tombolo::schedule
