// An all-reduce over several dimensions, cut into chunks that work in all of them at once.
//
// A chunk is reduce-scattered along one dimension after another, which leaves it a k-th of its size
// after a dimension of k NPUs, and all-gathered back in reverse; in the dimension where it turns it
// does both at once. Each dimension serves one chunk at a time. An NPU sends, in dimension d of k_d
// NPUs, and is done after, of S bytes:
//
//   bytes_d = 2 S (k_d - 1)/k_d / product of k_j over the dimensions before d         (baseline)
//   T = max_d(bytes_d / B_d) + (sum over dimensions before the busiest of bytes_d / B_d) / chunks
//
// The second line is what the played schedule comes to under the order `baseline`, where filling
// and draining is exposed: dimensions in the order given for every chunk. `themis` sorts the
// dimensions again for each chunk by the time assigned to them so far, least first; it keeps to
// the given order while the loads differ by less than a sixteenth of a chunk.
//
// Latency is left out; the law suits sizes that are limited by bandwidth. Sources: Won et al.,
// ASTRA-sim 2.0, 2023, sections II-B and IV-A; Rashidi et al., Themis, ISCA 2022.
// docs/laws/chunked_all_reduce.md. Cost: O(chunks dimensions log chunks).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "base/units.h"

namespace tombolo::network {

enum class DimensionScheduling : uint8_t { kBaseline, kThemis };
constexpr auto enum_names(DimensionScheduling) {
  return std::to_array<EnumName<DimensionScheduling>>(
      {{DimensionScheduling::kBaseline, "baseline"}, {DimensionScheduling::kThemis, "themis"}});
}

// Which chunk a free dimension takes.
enum class ChunkChoice : uint8_t { kFirstCome, kSmallest };
constexpr auto enum_names(ChunkChoice) {
  return std::to_array<EnumName<ChunkChoice>>(
      {{ChunkChoice::kFirstCome, "first-come"}, {ChunkChoice::kSmallest, "smallest"}});
}

struct AllReduceDimension {
  int64_t npus = 2;
  BytesPerSecond bandwidth;  // of an NPU, all its links in this dimension together, one direction
};

// Themis: what each dimension has been given so far, and the order of the next chunk, that of
// reduce-scatters; all-gathers take it backwards. All chunks are of equal size.
class DimensionLoads {
 public:
  DimensionLoads(std::vector<AllReduceDimension> dimensions, Bytes chunk);

  std::vector<size_t> next() const;
  void give_chunk(const std::vector<size_t>& order);  // what it sends along it, one way

 private:
  std::vector<AllReduceDimension> dimensions_;
  Bytes chunk_;
  std::vector<Seconds> given_;
};

struct ChunkedAllReduce {
  std::vector<AllReduceDimension> dimensions;
  Bytes size;  // of one NPU's input
  int64_t chunks = 64;
  DimensionScheduling order = DimensionScheduling::kBaseline;
  ChunkChoice choice = ChunkChoice::kFirstCome;
};

struct ChunkedAllReduceTimes {
  Seconds time;
  Seconds ideal;            // all dimensions busy all the time, no schedule is faster
  std::vector<Bytes> sent;  // by an NPU, per dimension
};

// Unusable: no dimension, one of fewer than 2 NPUs, sizes or bandwidths that are not positive and
// finite, chunks below 1 or above 2^20.
Result<ChunkedAllReduceTimes> play(const ChunkedAllReduce& collective);

}  // namespace tombolo::network
