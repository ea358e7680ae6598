#include "perform/compress/threshold.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace tombolo::compress {
namespace {

constexpr double kGoldenRatio = 0.6180339887498949;
constexpr double kDiagonal =
    0.4142135623730951;              // of a square, no multiple of the above: see scattered()
constexpr uint32_t kDoubling = 128;  // bins

float bin_begin(uint32_t bin) { return std::bit_cast<float>(bin << 16); }

uint64_t sum_of_doubling(const uint32_t* bins) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < kDoubling; ++i) sum += bins[i];
  return sum;
}

}  // namespace

float threshold_of(const Histogram& histogram, double wanted) {
  if (wanted <= 0) return std::numeric_limits<float>::infinity();
  const uint32_t* const bins = histogram.bins().data();
  double above = 0;
  uint32_t top = Histogram::kFirstNotFinite;
  while (top > 0) {  // whole doublings first: nearly all are empty
    const auto here = static_cast<double>(sum_of_doubling(bins + top - kDoubling));
    if (above + here >= wanted) break;
    above += here;
    top -= kDoubling;
  }
  for (uint32_t bin = top; bin-- > 1;) {
    const double here = bins[bin];
    if (above + here < wanted) {
      above += here;
      continue;
    }
    const double begin = bin_begin(bin);
    const double end = std::min<double>(bin_begin(bin + 1), std::numeric_limits<float>::max());
    const double norm = end - (wanted - above) / here * (end - begin);
    return std::max(static_cast<float>(norm), std::numeric_limits<float>::denorm_min());
  }
  return std::numeric_limits<float>::denorm_min();
}

std::vector<int64_t> scattered(int64_t count, int64_t step) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  if (count == 0) return order;
  // The step between places has no divisor in common with their number, so each is visited once.
  int64_t stride = std::max<int64_t>(1, std::llround(kGoldenRatio * static_cast<double>(count)));
  while (std::gcd(stride, count) != 1) ++stride;
  const double turns = kDiagonal * static_cast<double>(step % (1 << 20));
  auto place = static_cast<int64_t>((turns - std::floor(turns)) * static_cast<double>(count));
  for (int64_t& at : order) {
    at = place;
    place = (place + stride) % count;
  }
  return order;
}

}  // namespace tombolo::compress
