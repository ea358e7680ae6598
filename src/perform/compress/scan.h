// One pass over a tensor's blocks: their norms, counted by size, and which of them reach a
// threshold. Compiled for AVX-512, AVX2 and plain C++, chosen when the program runs (Highway).
//
// The norm of a block is the sum of its magnitudes, added in one order whatever the instruction set:
// elements i and i + 8, of these sums i and i + 4, then i + 2, then i + 1. No fused multiply-add. So
// every instruction set gives the same bits.
//
// Bound by memory: a pass that only reads moves 4 bytes an element, one that accumulates 12.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "perform/compress/blocks.h"

namespace tombolo::compress {

// How many blocks there are of each norm: a bin for each value of a float's upper 16 bits, hence 128
// to a doubling. 128 KB.
class Histogram {
 public:
  static constexpr size_t kBins = 32768;
  static constexpr uint32_t kFirstNotFinite = 0x7f80;  // the bin of infinity; NaN lies above

  Histogram() : counts_(kBins, 0) {}
  void clear() { counts_.assign(kBins, 0); }
  uint32_t* counts() { return counts_.data(); }
  const std::vector<uint32_t>& bins() const { return counts_; }
  void add(const Histogram& other);
  int64_t not_finite() const;

 private:
  std::vector<uint32_t> counts_;
};

// At most in one request: 259 KB of the tensor, which a second-level cache still holds when what was
// hit is coded. A quarter of it is no multiple of a page: else the four places that are scanned at
// once would compete for the same lines of a cache.
inline constexpr int64_t kScanBlocks = 4144;

struct ScanRequest {
  int64_t first = 0;   // block, a multiple of 4
  int64_t blocks = 0;  // at most kScanBlocks
  float threshold = 0;
  uint32_t* histogram = nullptr;  // Histogram::kBins counts, added to
  uint16_t* keys = nullptr;       // where not null: the bin of block b is written to keys[b]
  uint32_t* hits = nullptr;       // room for kScanBlocks numbers
};

// Blocks [first, first + blocks) of `numbers`. Returns how many have a norm that reaches the
// threshold, is finite and not zero; their numbers are in `hits`, ascending.
size_t scan(std::span<const float> numbers, const ScanRequest& request);

// The same of residual = decay * residual + gradient, which is written. Equal lengths.
size_t accumulate_and_scan(std::span<const float> gradient, float decay, std::span<float> residual,
                           const ScanRequest& request);

// The norm of one block, in the same order.
float block_norm(std::span<const float> numbers, int64_t block);

// Names of the instruction sets that this processor and this build have, best first: "AVX3" is
// AVX-512, "SCALAR" plain C++.
std::vector<std::string> instruction_sets();

// Makes all later calls use this one of them; an empty name: the best again. For tests and
// benchmarks: not while another thread scans.
void use_instruction_set(const std::string& name);

}  // namespace tombolo::compress
