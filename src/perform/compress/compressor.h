// Which blocks of a gradient to send, and what to keep back of them: block-aligned selection with
// error feedback, in one pass over memory.
//
//   residual = decay * residual + gradient
//   sent     = quantised(blocks of the residual with the largest norms)
//   residual = residual - sent
//
// Error feedback: Seide et al. (2014), Karimireddy et al. (2019); the quantised value is subtracted,
// as in SparseLoCo, so rounding is made up for as well. The pass chooses by a threshold that it
// corrects as it goes (threshold.h), so that adding, choosing, coding and subtracting touch each
// line once: 12 bytes an element, as b[i] += a[i]. An exact selection, of the blocks with the
// largest norms and the lower number where norms are equal, keeps 2 bytes a block aside and visits
// what it selects a second time: about a quarter longer. Every n-th step is exact, and every one of a
// small tensor, where a threshold would be off by chance.
//
// The same bits on every machine. Cost in addition to the pass: about 20 us a call.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "perform/compress/largest_blocks.h"
#include "perform/compress/quantise.h"
#include "perform/compress/scan.h"
#include "perform/compress/threshold.h"

namespace tombolo::compress {

struct CompressOptions {
  double density = 0.01;  // of the blocks, over all replicas together
  int64_t replicas = 1;   // each sends its share
  Values values = Values::kBf16;
  double decay = 1;              // of the residual before a gradient is added; SparseLoCo: 0.95
  int64_t exact_every = 64;      // steps; 1: always exact
  int64_t exact_below = 262144;  // blocks: a tensor with fewer, 16 MB, is always exact
};

struct Selected {
  int64_t target = 0;
  int64_t blocks = 0;  // at most 1.25 target + 16: further ones wait for the next step
  bool exact = false;
  float threshold = 0;     // that would have been right, to a fraction of a bin
  int64_t not_finite = 0;  // blocks whose norm is infinite or NaN: never sent. The step is void
};

// A chunk's part of what was found.
struct Run {
  size_t begin = 0, end = 0;
};

// Holds memory that one tensor after the other may use: 280 KB, a copy of what is sent, and 2 bytes a
// block. The caller keeps a tensor's own state.
class BlockCompressor {
 public:
  // density in (0, 1], decay in [0, 1], exact_every >= 1, replicas >= 1.
  explicit BlockCompressor(const CompressOptions& options);
  // For later selections; in (0, 1].
  void set_density(double density);

  // Both of one length. `sent` keeps its memory from call to call.
  Selected compress(std::span<const float> gradient, std::span<float> residual,
                    SelectionState& state, PackedBlocks& sent);

  // Only selects: the numbers of the blocks, ascending. 4 bytes an element are read.
  Selected select(std::span<const float> numbers, SelectionState& state,
                  std::vector<uint32_t>& ids);

 private:
  template <class Scan, class Sink>
  Selected run(std::span<const float> numbers, SelectionState& state, const Scan& scan_blocks,
               Sink& sink);
  template <class Scan, class Sink>
  void by_threshold(std::span<const float> numbers, int64_t target, int64_t step,
                    const Scan& scan_blocks, Sink& sink);
  // Counts blocks of ranges and notes their bins, but does not choose any.
  template <class Scan>
  void scan_aside(std::span<const float> numbers, std::span<const BlockRange> ranges,
                  const Scan& scan_blocks);
  // Takes the largest of the blocks set aside; returns which of these belong to each range.
  template <class Sink>
  std::vector<Run> take_aside(std::span<const float> numbers, std::span<const BlockRange> ranges,
                              int64_t target, Sink& sink);

  CompressOptions options_;
  Histogram histogram_;  // of all blocks scanned so far
  Histogram aside_;      // of those set aside
  std::vector<uint32_t> hits_;
  std::vector<uint16_t> keys_;
  PackedBlocks found_;  // in the order of the scan
};

}  // namespace tombolo::compress
