#include "perform/compress/largest_blocks.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tombolo::compress {
namespace {

// The highest bin down to which all blocks together are at least `target`, or else the lowest, and
// how many blocks lie above it.
std::pair<uint32_t, int64_t> last_bin(const Histogram& histogram, int64_t target) {
  int64_t above = 0;
  for (uint32_t bin = Histogram::kFirstNotFinite - 1; bin > 0; --bin) {
    const int64_t here = histogram.bins()[bin];
    if (above + here >= target) return {bin, above};
    above += here;
  }
  return {0, above};
}

// Nearly all groups of 32 keys hold nothing: their maximum says so. Infinite ones only look again.
uint16_t highest_of(const uint16_t* keys) {
  uint16_t highest = 0;
  for (int i = 0; i < 32; ++i) highest = std::max(highest, keys[i]);
  return highest;
}

}  // namespace

std::vector<uint32_t> largest_blocks(std::span<const float> numbers,
                                     std::span<const BlockRange> ranges,
                                     std::span<const uint16_t> keys, const Histogram& histogram,
                                     int64_t target) {
  const auto [bin, above] = last_bin(histogram, target);
  std::vector<uint32_t> ids;
  ids.reserve(static_cast<size_t>(target));
  std::vector<std::pair<float, uint32_t>> doubtful;
  const auto look = [&, lowest = bin](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const uint16_t key = keys[static_cast<size_t>(b)];
      if (key < lowest || key >= Histogram::kFirstNotFinite) continue;
      if (key > lowest) {
        ids.push_back(static_cast<uint32_t>(b));
      } else if (const float norm = block_norm(numbers, b); norm > 0) {
        doubtful.emplace_back(-norm,
                              static_cast<uint32_t>(b));  // largest norm, lowest number first
      }
    }
  };
  for (const BlockRange& range : ranges) {
    for (int64_t begin = range.first; begin < range.end; begin += 32) {
      const int64_t end = std::min(range.end, begin + 32);
      if (end == begin + 32 && highest_of(keys.data() + begin) < bin) continue;
      look(begin, end);
    }
  }
  CHECK(static_cast<int64_t>(ids.size()) == above, "{} blocks above a bin, counted {}", ids.size(),
        above);
  const size_t more = std::min(doubtful.size(), static_cast<size_t>(target - above));
  const auto middle = doubtful.begin() + static_cast<int64_t>(more);
  std::nth_element(doubtful.begin(), middle, doubtful.end());
  for (auto it = doubtful.begin(); it != middle; ++it) ids.push_back(it->second);
  const auto added = ids.begin() + above;
  std::sort(added, ids.end());
  std::inplace_merge(ids.begin(), added, ids.end());
  return ids;
}

}  // namespace tombolo::compress
