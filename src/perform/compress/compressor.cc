#include "perform/compress/compressor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace tombolo::compress {
namespace {

template <class T>
void gather(const std::vector<T>& from, const std::vector<Run>& runs, size_t width,
            std::vector<T>& to) {
  to.clear();
  for (const Run& run : runs) {
    to.insert(to.end(), from.begin() + static_cast<int64_t>(run.begin * width),
              from.begin() + static_cast<int64_t>(run.end * width));
  }
}

// Numbers of blocks as they are found, up to a capacity.
class Numbers {
 public:
  Numbers(std::vector<uint32_t>& found, size_t capacity, std::vector<uint32_t>& ids)
      : found_(found), capacity_(capacity), ids_(ids) {
    found_.clear();
  }
  void add(std::span<const uint32_t> ids) {
    const size_t count = std::min(ids.size(), capacity_ - found_.size());
    found_.insert(found_.end(), ids.begin(), ids.begin() + static_cast<int64_t>(count));
  }
  size_t count() const { return found_.size(); }
  void finish(const std::vector<Run>& runs) { gather(found_, runs, 1, ids_); }

 private:
  std::vector<uint32_t>& found_;
  size_t capacity_;
  std::vector<uint32_t>& ids_;
};

// The same, coded, and taken away from the residual.
class Parcel {
 public:
  Parcel(PackedBlocks& found, size_t capacity, std::span<float> residual, PackedBlocks& sent)
      : found_(found), residual_(residual), sent_(sent), bytes_(code_bytes(found.values)) {
    found_.resize(capacity);
  }

  void add(std::span<const uint32_t> ids) {
    constexpr size_t kAhead = 8;
    const size_t count = std::min(ids.size(), found_.ids.size() - count_);
    for (size_t i = 0; i < count; ++i) {
      const size_t next = std::min(i + kAhead, count - 1);
      __builtin_prefetch(residual_.data() + size_t{ids[next]} * kBlock, 1);
      add(ids[i]);
    }
  }

  size_t count() const { return count_; }

  void finish(const std::vector<Run>& runs) {
    gather(found_.ids, runs, 1, sent_.ids);
    gather(found_.codes, runs, bytes_, sent_.codes);
    if (has_scales(sent_.values)) {
      gather(found_.scales, runs, 1, sent_.scales);
    } else {
      sent_.scales.clear();
    }
  }

 private:
  void add(uint32_t id) {
    const size_t begin = size_t{id} * kBlock;
    const size_t length = std::min<size_t>(kBlock, residual_.size() - begin);
    float* const at = residual_.data() + begin;
    std::array<float, kBlock> numbers{}, sent;
    std::copy_n(at, length, numbers.begin());
    const uint8_t scale =
        quantise(found_.values, numbers.data(), found_.codes.data() + count_ * bytes_, sent.data());
    for (size_t i = 0; i < length; ++i) at[i] = numbers[i] - sent[i];
    found_.ids[count_] = id;
    if (has_scales(found_.values)) found_.scales[count_] = scale;
    ++count_;
  }

  PackedBlocks& found_;
  std::span<float> residual_;
  PackedBlocks& sent_;
  size_t bytes_;
  size_t count_ = 0;
};

// The more chunks the better a threshold learned from some fits the others; each costs a little.
int64_t chunk_blocks(int64_t blocks) {
  return std::clamp<int64_t>(blocks / 1024 / 4 * 4, 256, kScanBlocks);
}

size_t capacity_of(int64_t target, int64_t blocks) {
  return static_cast<size_t>(std::min(blocks, target + target / 4 + 16));
}

// Blocks of chunk `i` of `size` blocks each.
BlockRange chunk_range(int64_t i, int64_t size, int64_t blocks) {
  return {i * size, std::min(blocks, (i + 1) * size)};
}

}  // namespace

BlockCompressor::BlockCompressor(const CompressOptions& options)
    : options_(options), hits_(kScanBlocks) {
  CHECK(options.decay >= 0 && options.decay <= 1, "a decay of {}", options.decay);
  CHECK(options.exact_every >= 1, "exact every {} steps", options.exact_every);
}

void BlockCompressor::set_density(double density) {
  CHECK(density > 0 && density <= 1, "a density of {}", density);
  options_.density = density;
}

template <class Scan, class Sink>
void BlockCompressor::by_threshold(std::span<const float> numbers, int64_t target, int64_t step,
                                   const Scan& scan_blocks, Sink& sink) {
  const int64_t blocks = blocks_of(static_cast<int64_t>(numbers.size()));
  const int64_t size = chunk_blocks(blocks), chunks = (blocks + size - 1) / size;
  std::vector<int64_t> order = scattered(chunks, step);
  const int64_t early = chunks / 16;
  std::sort(order.begin(), order.begin() + early);
  const std::span<const int64_t> sample(order.begin(), order.begin() + early);
  std::vector<BlockRange> ranges;
  int64_t scanned = 0;
  for (const int64_t chunk : sample) {
    ranges.push_back(chunk_range(chunk, size, blocks));
    scanned += ranges.back().end - ranges.back().first;
  }
  scan_aside(numbers, ranges, scan_blocks);

  std::vector<Run> runs(order.size());
  const int64_t learn_every = std::max<int64_t>(1, chunks / 64);
  int64_t undecided = blocks;
  float threshold = 0;
  for (int64_t done = early; done < chunks; ++done) {
    if (done == early || done % learn_every == 0) {
      const auto left = static_cast<double>(target) - static_cast<double>(sink.count());
      threshold = threshold_of(
          histogram_, left * static_cast<double>(scanned) / static_cast<double>(undecided));
    }
    const int64_t chunk = order[static_cast<size_t>(done)];
    const BlockRange range = chunk_range(chunk, size, blocks);
    const size_t begin = sink.count();
    const size_t found = scan_blocks(ScanRequest{.first = range.first,
                                                 .blocks = range.end - range.first,
                                                 .threshold = threshold,
                                                 .histogram = histogram_.counts(),
                                                 .hits = hits_.data()});
    sink.add({hits_.data(), found});
    runs[static_cast<size_t>(chunk)] = {begin, sink.count()};
    scanned += range.end - range.first;
    undecided -= range.end - range.first;
  }

  // What is left to send comes out of the sample, and is exactly as much.
  const int64_t left = std::max<int64_t>(0, target - static_cast<int64_t>(sink.count()));
  const std::vector<Run> of_sample = take_aside(numbers, ranges, left, sink);
  for (size_t i = 0; i < sample.size(); ++i) runs[static_cast<size_t>(sample[i])] = of_sample[i];
  sink.finish(runs);
}

template <class Scan>
void BlockCompressor::scan_aside(std::span<const float> numbers, std::span<const BlockRange> ranges,
                                 const Scan& scan_blocks) {
  const auto blocks = static_cast<size_t>(blocks_of(static_cast<int64_t>(numbers.size())));
  keys_.resize(std::max(keys_.size(), blocks));
  aside_.clear();
  for (const BlockRange& range : ranges) {
    for (int64_t first = range.first; first < range.end; first += kScanBlocks) {
      scan_blocks(ScanRequest{.first = first,
                              .blocks = std::min(kScanBlocks, range.end - first),
                              .threshold = std::numeric_limits<float>::infinity(),
                              .histogram = aside_.counts(),
                              .keys = keys_.data(),
                              .hits = hits_.data()});
    }
  }
  histogram_.add(aside_);
}

template <class Sink>
std::vector<Run> BlockCompressor::take_aside(std::span<const float> numbers,
                                             std::span<const BlockRange> ranges, int64_t target,
                                             Sink& sink) {
  const std::vector<uint32_t> ids = largest_blocks(numbers, ranges, keys_, aside_, target);
  std::vector<Run> runs;
  auto at = ids.begin();
  for (const BlockRange& range : ranges) {
    const auto end = std::lower_bound(at, ids.end(), range.end,
                                      [](uint32_t id, int64_t limit) { return id < limit; });
    const size_t begin = sink.count();
    sink.add({at, end});
    runs.push_back({begin, sink.count()});
    at = end;
  }
  return runs;
}

template <class Scan, class Sink>
Selected BlockCompressor::run(std::span<const float> numbers, SelectionState& state,
                              const Scan& scan_blocks, Sink& sink) {
  const auto length = static_cast<int64_t>(numbers.size());
  const int64_t blocks = blocks_of(length);
  Selected done{.target = block_target(length, options_.density, options_.replicas)};
  done.exact = state.since_exact + 1 >= options_.exact_every ||
               blocks < std::max(options_.exact_below, 16 * chunk_blocks(blocks));
  histogram_.clear();
  if (done.exact) {
    const std::array<BlockRange, 1> all = {BlockRange{0, blocks}};
    scan_aside(numbers, all, scan_blocks);
    sink.finish(take_aside(numbers, all, done.target, sink));
  } else {
    by_threshold(numbers, done.target, state.step, scan_blocks, sink);
  }
  done.blocks = static_cast<int64_t>(sink.count());
  done.not_finite = histogram_.not_finite();
  done.threshold = threshold_of(histogram_, static_cast<double>(done.target));
  state = {.step = state.step + 1, .since_exact = done.exact ? 0 : state.since_exact + 1};
  return done;
}

Selected BlockCompressor::compress(std::span<const float> gradient, std::span<float> residual,
                                   SelectionState& state, PackedBlocks& sent) {
  const auto length = static_cast<int64_t>(residual.size());
  const int64_t target = block_target(length, options_.density, options_.replicas);
  sent.length = length;
  sent.values = found_.values = options_.values;
  Parcel parcel(found_, capacity_of(target, blocks_of(length)), residual, sent);
  const auto decay = static_cast<float>(options_.decay);
  const auto scan_blocks = [&](const ScanRequest& request) {
    return accumulate_and_scan(gradient, decay, residual, request);
  };
  return run(residual, state, scan_blocks, parcel);
}

Selected BlockCompressor::select(std::span<const float> numbers, SelectionState& state,
                                 std::vector<uint32_t>& ids) {
  const auto length = static_cast<int64_t>(numbers.size());
  const int64_t target = block_target(length, options_.density, options_.replicas);
  Numbers found(found_.ids, capacity_of(target, blocks_of(length)), ids);
  const auto scan_blocks = [&](const ScanRequest& request) { return scan(numbers, request); };
  return run(numbers, state, scan_blocks, found);
}

}  // namespace tombolo::compress
