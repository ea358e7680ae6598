#include "perform/compress/scan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

// Plain C++ is compiled even where something better is certain, so that any processor can test it.
// It is written out below: Highway's emulation of vectors is not for every g++.
#define HWY_COMPILE_ALL_ATTAINABLE
#define HWY_BROKEN_EMU128 1
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "perform/compress/scan.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // must precede highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tombolo::compress {
namespace HWY_NAMESPACE {

// four_blocks(): the bins of four blocks, `stride` floats apart from `numbers` on, to which the
// gradient is added first if there is one; returns one bit for each whose norm reaches the
// threshold, is finite and not zero.
#if HWY_TARGET == HWY_SCALAR

template <bool kAccumulate>
uint32_t four_blocks(const float* gradient, float decay, float* numbers, int64_t stride,
                     float threshold, uint32_t* bins) {
  uint32_t mask = 0;
  for (uint32_t b = 0; b < 4; ++b) {
    std::array<float, kBlock> sums;
    for (size_t i = 0; i < kBlock; ++i) {
      float& x = numbers[b * stride + i];
      if constexpr (kAccumulate) x = x * decay + gradient[b * stride + i];
      sums[i] = std::fabs(x);
    }
    for (size_t width = kBlock / 2; width > 0; width /= 2) {
      for (size_t i = 0; i < width; ++i) sums[i] += sums[i + width];
    }
    bins[b] = std::bit_cast<uint32_t>(sums[0]) >> 16;
    const bool hit = sums[0] >= threshold && sums[0] > 0 && std::isfinite(sums[0]);
    mask |= uint32_t{hit} << b;
  }
  return mask;
}

#else
namespace hn = hwy::HWY_NAMESPACE;

// Not of 512 bits, where there are: with them a selection took 2.5 times as long (AMD EPYC, AVX-512).
const hn::CappedTag<float, 8> kWide;
const hn::Full128<float> kFour;
using Four = hn::Vec<hn::Full128<float> >;

// The lanes of a vector folded in halves until four are left.
template <class Vector>
HWY_INLINE Four folded(Vector v) {
  if constexpr (hn::MaxLanes(hn::DFromV<Vector>()) == 4) {
    return v;
  } else {
    const hn::Half<hn::DFromV<Vector> > half;
    return folded(hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// Four sums that are still to be added, of the magnitudes of a block.
template <bool kAccumulate>
HWY_INLINE Four magnitudes(const float* gradient, float decay, float* numbers) {
  constexpr size_t kLanes = hn::MaxLanes(kWide);
  constexpr size_t kVectors = kBlock / kLanes;
  hn::Vec<decltype(kWide)> v[kVectors];
  for (size_t i = 0; i < kVectors; ++i) {
    v[i] = hn::LoadU(kWide, numbers + i * kLanes);
    if constexpr (kAccumulate) {
      v[i] = hn::Add(hn::Mul(v[i], hn::Set(kWide, decay)), hn::LoadU(kWide, gradient + i * kLanes));
      hn::StoreU(v[i], kWide, numbers + i * kLanes);
    }
    v[i] = hn::Abs(v[i]);
  }
  for (size_t width = kVectors / 2; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) v[i] = hn::Add(v[i], v[i + width]);
  }
  return folded(v[0]);
}

// The norms of four blocks, side by side.
HWY_INLINE Four norms(const Four* parts) {
  const auto pair = [](Four a, Four b) HWY_ATTR {
    return hn::Add(hn::ConcatLowerLower(kFour, b, a), hn::ConcatUpperUpper(kFour, b, a));
  };
  const Four ab = pair(parts[0], parts[1]), cd = pair(parts[2], parts[3]);
  return hn::Add(hn::ConcatEven(kFour, cd, ab), hn::ConcatOdd(kFour, cd, ab));
}

template <bool kAccumulate>
HWY_INLINE uint32_t four_blocks(const float* gradient, float decay, float* numbers, int64_t stride,
                                float threshold, uint32_t* bins) {
  constexpr int64_t kAhead = 10 * kBlock;  // floats, of each of the four places
  Four parts[4];
  for (int64_t i = 0; i < 4; ++i) {
    hwy::Prefetch(numbers + i * stride + kAhead);
    if constexpr (kAccumulate) hwy::Prefetch(gradient + i * stride + kAhead);
    parts[i] = magnitudes<kAccumulate>(gradient + i * stride, decay, numbers + i * stride);
  }
  const Four sums = norms(parts);
  const hn::Full128<uint32_t> bits;
  hn::StoreU(hn::ShiftRight<16>(hn::BitCast(bits, sums)), bits, bins);
  const auto reach =
      hn::And(hn::Ge(sums, hn::Set(kFour, threshold)), hn::Gt(sums, hn::Zero(kFour)));
  const auto finite = hn::Lt(sums, hn::Set(kFour, std::numeric_limits<float>::infinity()));
  const auto hit = hn::And(reach, finite);
  if (HWY_LIKELY(hn::AllFalse(kFour, hit))) return 0;
  uint8_t mask[8] = {};
  hn::StoreMaskBits(kFour, hit, mask);
  return mask[0];
}

#endif

// `request.blocks` is a multiple of 4; all of them lie within the arrays. Four places are scanned at
// once: memory serves four streams faster than one, and blocks that follow each other in a register
// lie in different pages. Each place has its part of `hits`; in the end they close up.
template <bool kAccumulate>
HWY_INLINE size_t scan_whole(const float* gradient, float decay, float* numbers,
                             const ScanRequest& request) {
  const int64_t stride = request.blocks / 4;
  uint32_t* ends[4];
  for (int64_t i = 0; i < 4; ++i) ends[i] = request.hits + i * stride;
  for (int64_t j = 0; j < stride; ++j) {
    const int64_t b = request.first + j;
    const float* const from = kAccumulate ? gradient + b * kBlock : numbers;
    uint32_t bins[4];
    const uint32_t mask = four_blocks<kAccumulate>(from, decay, numbers + b * kBlock,
                                                   stride * kBlock, request.threshold, bins);
    for (int64_t i = 0; i < 4; ++i) ++request.histogram[bins[i]];
    if (request.keys != nullptr) {
      for (int64_t i = 0; i < 4; ++i) request.keys[b + i * stride] = static_cast<uint16_t>(bins[i]);
    }
    if (HWY_LIKELY(mask == 0)) continue;
    for (int64_t i = 0; i < 4; ++i) {
      if ((mask >> i) & 1) *ends[i]++ = static_cast<uint32_t>(b + i * stride);
    }
  }
  uint32_t* end = ends[0];
  for (int64_t i = 1; i < 4; ++i) {
    const uint32_t* const begin = request.hits + i * stride;
    end = std::copy(begin, static_cast<const uint32_t*>(ends[i]), end);
  }
  return static_cast<size_t>(end - request.hits);
}

size_t look(float* numbers, const ScanRequest& request) {
  return scan_whole<false>(nullptr, 1, numbers, request);
}

size_t accumulate(const float* gradient, float decay, float* numbers, const ScanRequest& request) {
  return scan_whole<true>(gradient, decay, numbers, request);
}

}  // namespace HWY_NAMESPACE
}  // namespace tombolo::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tombolo::compress {
namespace {

HWY_EXPORT(look);
HWY_EXPORT(accumulate);

// The blocks of a request that are not four whole ones: at most 3, of which the last may be cut
// short. They are scanned in a copy that is filled up with blocks of zeros, whose counts are
// subtracted again.
class Rest {
 public:
  Rest(const ScanRequest& request, int64_t whole, int64_t length)
      : begin_(whole * kBlock),
        count_(static_cast<size_t>(std::min(length, (request.first + request.blocks) * kBlock) -
                                   begin_)),
        blocks_(request.first + request.blocks - whole),
        first_(whole),
        request_(request) {
    request_.first = 0;
    request_.blocks = 4;
    if (request_.keys != nullptr) request_.keys = keys_;
  }

  float* take(const float* from, std::array<float, 4 * kBlock>& to) const {
    std::copy_n(from + begin_, count_, to.begin());
    return to.data();
  }
  float* take_numbers(const float* from) { return take(from, numbers_); }
  const float* take_gradient(const float* from) { return take(from, gradient_); }
  void put_back(float* to) const { std::copy_n(numbers_.begin(), count_, to + begin_); }
  const ScanRequest& request() const { return request_; }

  // After the scan: corrects the histogram, writes keys, turns hits into numbers of the tensor.
  void settle(size_t hits, uint16_t* keys) {
    request_.histogram[0] -= static_cast<uint32_t>(4 - blocks_);
    if (keys != nullptr) std::copy_n(keys_, blocks_, keys + first_);
    for (size_t i = 0; i < hits; ++i) request_.hits[i] += static_cast<uint32_t>(first_);
  }

 private:
  int64_t begin_;  // element
  size_t count_;   // elements
  int64_t blocks_, first_;
  ScanRequest request_;
  std::array<float, 4 * kBlock> numbers_{}, gradient_{};
  uint16_t keys_[4] = {};
};

// How many of the request's blocks are whole and come in fours.
int64_t in_fours(const ScanRequest& request, int64_t length) {
  CHECK(request.first % 4 == 0 && request.blocks >= 0 && request.blocks <= kScanBlocks &&
            request.first + request.blocks <= blocks_of(length),
        "blocks {} + {} of {}", request.first, request.blocks, blocks_of(length));
  const int64_t whole = std::min(request.blocks, length / kBlock - request.first);
  return std::max<int64_t>(whole, 0) / 4 * 4;
}

}  // namespace

void Histogram::add(const Histogram& other) {
  for (size_t bin = 0; bin < kBins; ++bin) counts_[bin] += other.counts_[bin];
}

int64_t Histogram::not_finite() const {
  int64_t sum = 0;
  for (size_t bin = kFirstNotFinite; bin < kBins; ++bin) sum += counts_[bin];
  return sum;
}

size_t scan(std::span<const float> numbers, const ScanRequest& request) {
  const auto length = static_cast<int64_t>(numbers.size());
  ScanRequest part = request;
  part.blocks = in_fours(request, length);
  // Not written: the kernel without a gradient only reads.
  auto* const all = const_cast<float*>(numbers.data());
  size_t hits = HWY_DYNAMIC_DISPATCH(look)(all, part);
  if (part.blocks == request.blocks) return hits;
  part.hits += hits;
  ScanRequest rest_of = request;
  rest_of.hits = part.hits;
  Rest rest(rest_of, request.first + part.blocks, length);
  const size_t more = HWY_DYNAMIC_DISPATCH(look)(rest.take_numbers(all), rest.request());
  rest.settle(more, request.keys);
  return hits + more;
}

size_t accumulate_and_scan(std::span<const float> gradient, float decay, std::span<float> residual,
                           const ScanRequest& request) {
  CHECK(gradient.size() == residual.size(), "{} numbers of gradient, {} of residual",
        gradient.size(), residual.size());
  const auto length = static_cast<int64_t>(residual.size());
  ScanRequest part = request;
  part.blocks = in_fours(request, length);
  const size_t hits =
      HWY_DYNAMIC_DISPATCH(accumulate)(gradient.data(), decay, residual.data(), part);
  if (part.blocks == request.blocks) return hits;
  ScanRequest rest_of = request;
  rest_of.hits += hits;
  Rest rest(rest_of, request.first + part.blocks, length);
  const size_t more =
      HWY_DYNAMIC_DISPATCH(accumulate)(rest.take_gradient(gradient.data()), decay,
                                       rest.take_numbers(residual.data()), rest.request());
  rest.put_back(residual.data());
  rest.settle(more, request.keys);
  return hits + more;
}

float block_norm(std::span<const float> numbers, int64_t block) {
  const auto begin = static_cast<size_t>(block * kBlock);
  CHECK(begin < numbers.size(), "block {} of {} numbers", block, numbers.size());
  std::array<float, kBlock> sums{};
  const size_t count = std::min<size_t>(kBlock, numbers.size() - begin);
  for (size_t i = 0; i < count; ++i) sums[i] = std::fabs(numbers[begin + i]);
  for (size_t width = kBlock / 2; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) sums[i] += sums[i + width];
  }
  return sums[0];
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

void use_instruction_set(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
  if (name.empty()) return;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name != hwy::TargetName(target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    return;
  }
  CHECK(false, "no instruction set {} here", name);
}

}  // namespace tombolo::compress
#endif  // HWY_ONCE
