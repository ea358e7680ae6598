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

// Fewer blocks than these, and the selection is exact: the chance of a threshold would show.
constexpr int64_t kThresholdBlocksMin = 262144;

// The more chunks the better a threshold learned from some fits the others; each costs a little.
int64_t chunk_blocks(int64_t blocks) {
  return std::clamp<int64_t>(blocks / 1024 / 4 * 4, 256, kScanBlocks);
}

size_t capacity_of(int64_t target, int64_t blocks) {
  return static_cast<size_t>(std::min(blocks, target + target / 4 + 16));
}

// Whether to look at the threshold again after this many of `chunks`: at 4, 8, 16, ..., and 64 times
// on the way.
bool looks_again(int64_t done, int64_t chunks) {
  const bool power = done >= 4 && (done & (done - 1)) == 0;
  return power || (done > 0 && done % std::max<int64_t>(1, chunks / 64) == 0);
}

}  // namespace

BlockCompressor::BlockCompressor(const CompressOptions& options)
    : options_(options), hits_(kScanBlocks) {
  CHECK(options.decay >= 0 && options.decay <= 1, "a decay of {}", options.decay);
  CHECK(options.exact_every >= 1, "exact every {} steps", options.exact_every);
}

template <class Scan, class Sink>
void BlockCompressor::by_threshold(std::span<const float> numbers, int64_t target,
                                   const SelectionState& state, const Scan& scan_blocks,
                                   Sink& sink) {
  const int64_t blocks = blocks_of(static_cast<int64_t>(numbers.size()));
  const int64_t size = chunk_blocks(blocks), chunks = (blocks + size - 1) / size;
  std::vector<int64_t> order = scattered(chunks, state.step);
  const int64_t late = chunks - chunks / 16;
  std::vector<Run> runs(order.size());
  float threshold = state.threshold;
  int64_t scanned = 0;
  for (int64_t done = 0; done < late; ++done) {
    if (looks_again(done, chunks)) {
      const auto left = static_cast<double>(target) - static_cast<double>(sink.count());
      threshold = threshold_of(
          histogram_, left * static_cast<double>(scanned) / static_cast<double>(blocks - scanned));
    }
    const int64_t chunk = order[static_cast<size_t>(done)];
    const ScanRequest request{.first = chunk * size,
                              .blocks = std::min(size, blocks - chunk * size),
                              .threshold = threshold,
                              .histogram = histogram_.counts(),
                              .hits = hits_.data()};
    const size_t found = scan_blocks(request), begin = sink.count();
    sink.add({hits_.data(), found});
    runs[static_cast<size_t>(chunk)] = {begin, sink.count()};
    scanned += request.blocks;
  }
  // What is left to send comes out of the chunks that are left, and is exactly as much.
  const std::span<int64_t> rest(order.begin() + late, order.end());
  std::sort(rest.begin(), rest.end());
  std::vector<BlockRange> ranges;
  for (const int64_t chunk : rest) {
    ranges.push_back({chunk * size, std::min(blocks, (chunk + 1) * size)});
  }
  std::vector<Run> late_runs(ranges.size());
  const int64_t left = std::max<int64_t>(0, target - static_cast<int64_t>(sink.count()));
  exactly(numbers, ranges, left, scan_blocks, sink, late_runs);
  for (size_t i = 0; i < rest.size(); ++i) runs[static_cast<size_t>(rest[i])] = late_runs[i];
  sink.finish(runs);
}

template <class Scan, class Sink>
void BlockCompressor::exactly(std::span<const float> numbers, std::span<const BlockRange> ranges,
                              int64_t target, const Scan& scan_blocks, Sink& sink,
                              std::span<Run> runs) {
  const auto blocks = static_cast<size_t>(blocks_of(static_cast<int64_t>(numbers.size())));
  keys_.resize(std::max(keys_.size(), blocks));
  late_.clear();
  for (const BlockRange& range : ranges) {
    for (int64_t first = range.first; first < range.end; first += kScanBlocks) {
      scan_blocks(ScanRequest{.first = first,
                              .blocks = std::min(kScanBlocks, range.end - first),
                              .threshold = std::numeric_limits<float>::infinity(),
                              .histogram = late_.counts(),
                              .keys = keys_.data(),
                              .hits = hits_.data()});
    }
  }
  const std::vector<uint32_t> ids =
      largest_blocks(numbers, ranges, {keys_.data(), blocks}, late_, target);
  auto at = ids.begin();
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto end = std::lower_bound(at, ids.end(), static_cast<uint64_t>(ranges[i].end));
    const size_t begin = sink.count();
    sink.add({at, end});
    runs[i] = {begin, sink.count()};
    at = end;
  }
  histogram_.add(late_);
}

template <class Scan, class Sink>
Selected BlockCompressor::run(std::span<const float> numbers, SelectionState& state,
                              const Scan& scan_blocks, Sink& sink) {
  const auto length = static_cast<int64_t>(numbers.size());
  const int64_t blocks = blocks_of(length);
  Selected done{.target = block_target(length, options_.density, options_.replicas)};
  done.exact = state.step == 0 || state.since_exact + 1 >= options_.exact_every ||
               blocks < kThresholdBlocksMin;
  histogram_.clear();
  if (done.exact) {
    const std::array<BlockRange, 1> all = {BlockRange{0, blocks}};
    std::array<Run, 1> run;
    exactly(numbers, all, done.target, scan_blocks, sink, run);
    sink.finish({run.begin(), run.end()});
  } else {
    by_threshold(numbers, done.target, state, scan_blocks, sink);
  }
  done.blocks = static_cast<int64_t>(sink.count());
  done.not_finite = histogram_.not_finite();
  done.threshold = threshold_of(histogram_, static_cast<double>(done.target));
  state = {.step = state.step + 1,
           .since_exact = done.exact ? 0 : state.since_exact + 1,
           .threshold = done.threshold};
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
