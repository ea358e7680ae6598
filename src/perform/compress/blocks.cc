#include "perform/compress/blocks.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace tombolo::compress {

int64_t blocks_of(int64_t length) {
  CHECK(length >= 0 && length <= kLengthMax, "a tensor of {} elements", length);
  return (length + kBlock - 1) / kBlock;
}

int64_t block_target(int64_t length, double density, int64_t replicas) {
  CHECK(density > 0 && density <= 1, "a density of {}", density);
  CHECK(replicas >= 1, "{} replicas", replicas);
  const int64_t blocks = blocks_of(length);
  const double share = static_cast<double>(blocks) * density / static_cast<double>(replicas);
  return std::min(blocks, std::max<int64_t>(std::llround(share), 1));
}

std::vector<float> Blocks::dense() const {
  CHECK(values.size() == ids.size() * kBlock, "{} values of {} blocks", values.size(), ids.size());
  std::vector<float> all(static_cast<size_t>(length), 0.0f);
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t begin = int64_t{ids[i]} * kBlock;
    CHECK(begin < length, "block {} of a tensor of {} elements", ids[i], length);
    const auto count = static_cast<size_t>(std::min(kBlock, length - begin));
    std::copy_n(values.begin() + static_cast<int64_t>(i) * kBlock, count, all.begin() + begin);
  }
  return all;
}

}  // namespace tombolo::compress
