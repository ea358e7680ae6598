// The ring all-reduce as an exchange of messages: who sends which chunk to whom, and when.
//
// The data is cut into n chunks, one per rank. In step t, rank i sends chunk i - t to its successor
// and gets chunk i - t - 1 from its predecessor (mod n). In the first n - 1 steps the receiver adds
// what comes to its own; then rank i holds the whole sum of chunk i + 1, and n - 1 more steps carry
// the sums around, where what comes replaces what was there.
//
// A chunk is summed from its own rank on around the ring: one fixed order, so all ranks end with
// the same bits. Source: Patarasuk, Yuan, JPDC 69(2), 2009. Cost: 2 (n-1) messages per rank, of
// 2 (n-1)/n of the data; time by the law ring-all-reduce (cost/collective.h), counted from the arrival
// of the last rank.
#pragma once

#include <functional>
#include <span>

#include "perform/kernels/kernels.h"
#include "perform/kernels/messenger.h"

namespace tombolo::kernels {

struct RingStep {
  int64_t step = 0;  // t, from 0
  size_t chunk = 0;
  bool sums = false;  // what comes is added; otherwise it replaces

  bool operator==(const RingStep&) const = default;
};

// What a rank puts into the ring and takes out of it.
struct RingWork {
  std::function<Payload(const RingStep&)> give;  // this rank's present chunk
  // What came from the predecessor.
  std::function<Status(const RingStep&, link::Received)> take;
  // May be empty: prepares the next step's chunk while the messages of this one are on their way. For
  // chunks that do not depend on received ones.
  std::function<void(const RingStep&)> prepare = {};
};

// Messages are tagged iteration, first + t; `first` is from kReplicaTensor on, and distinguishes the
// exchanges of one iteration (replica_tensor). Fails as the messenger or the work do.
Status ring_exchange(const Replicas& ring, uint64_t iteration, const RingWork& work,
                     uint64_t first = kReplicaTensor, bool sums_only = false);

// Replaces `values` by their sum over all ranks of the ring, which call it with as many. Chunk c is
// (x[c] + x[c + 1]) + ... + x[c - 1]: all ranks end with the same bits. Memory: one chunk more.
Status ring_sum(const Replicas& ring, uint64_t iteration, std::span<float> values,
                uint64_t first = kReplicaTensor);

// The first half of it (reduce-scatter): chunks may have any lengths; chunk i + 1 (mod n) becomes the whole sum
// on rank i, the others are undefined afterwards. All ranks call it with as many chunks as there are ranks, of
// the same lengths.
Status ring_scatter(const Replicas& ring, uint64_t iteration,
                    std::span<const std::span<float>> chunks, uint64_t first = kReplicaTensor);

// Returns when every replica has called it: an empty message to each and from each, tagged
// iteration, tensor.
Status barrier(const Replicas& replicas, uint64_t iteration, uint64_t tensor = kReplicaTensor);

}  // namespace tombolo::kernels
