#include "perform/compress/scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/random.h"

namespace tombolo::compress {
namespace {

// Magnitudes over many orders, so that another order of additions would give other bits.
std::vector<float> wide_numbers(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& x : numbers) {
    x = static_cast<float>(random.normal() * std::exp2(random.uniform() * 20 - 10));
  }
  return numbers;
}

struct Seen {
  std::vector<float> residual;
  std::vector<uint32_t> hits;
  std::vector<uint16_t> keys;
  std::vector<uint32_t> bins;
  bool operator==(const Seen&) const = default;
};

// Everything that a pass over the whole tensor writes.
Seen seen(const std::vector<float>& gradient, std::vector<float> residual, float threshold) {
  const auto length = static_cast<int64_t>(residual.size());
  Histogram histogram;
  Seen all{.keys = std::vector<uint16_t>(static_cast<size_t>(blocks_of(length)))};
  std::vector<uint32_t> hits(kScanBlocks);
  for (int64_t first = 0; first < blocks_of(length); first += kScanBlocks) {
    const size_t found =
        accumulate_and_scan(gradient, 0.95f, residual,
                            {.first = first,
                             .blocks = std::min(kScanBlocks, blocks_of(length) - first),
                             .threshold = threshold,
                             .histogram = histogram.counts(),
                             .keys = all.keys.data(),
                             .hits = hits.data()});
    all.hits.insert(all.hits.end(), hits.begin(), hits.begin() + static_cast<int64_t>(found));
  }
  all.residual = std::move(residual);
  all.bins = histogram.bins();
  return all;
}

// The same, written down as the header says it.
Seen expected(const std::vector<float>& gradient, std::vector<float> residual, float threshold) {
  for (size_t i = 0; i < residual.size(); ++i) residual[i] = residual[i] * 0.95f + gradient[i];
  Seen all{.bins = std::vector<uint32_t>(Histogram::kBins, 0)};
  for (int64_t b = 0; b < blocks_of(static_cast<int64_t>(residual.size())); ++b) {
    const float norm = block_norm(residual, b);
    uint32_t bits;
    std::memcpy(&bits, &norm, sizeof bits);
    all.keys.push_back(static_cast<uint16_t>(bits >> 16));
    ++all.bins[bits >> 16];
    if (norm >= threshold && norm > 0 && std::isfinite(norm)) {
      all.hits.push_back(static_cast<uint32_t>(b));
    }
  }
  all.residual = std::move(residual);
  return all;
}

class OnEveryInstructionSet : public testing::Test {
 protected:
  void TearDown() override { use_instruction_set(""); }
};

TEST(BlockNorm, AddsInTheOrderThatTheHeaderSays) {
  // 2^24 + 1 is no float and becomes 2^24, 2^24 + 2 is one. Element 0 meets 8 first, and then what 4
  // and 12 make together: ones at 8 and 12 get lost, ones at 4 and 12 do not.
  std::vector<float> numbers(16, 0.0f);
  numbers[0] = 16777216;
  numbers[8] = -1;
  numbers[12] = 1;
  EXPECT_EQ(block_norm(numbers, 0), 16777216);
  numbers[8] = 0;
  numbers[4] = 1;
  EXPECT_EQ(block_norm(numbers, 0), 16777218);
  EXPECT_EQ(block_norm(std::vector<float>(17, -2.0f), 1), 2);  // a last block of one element
}

TEST_F(OnEveryInstructionSet, GivesTheSameBitsForEveryLength) {
  ASSERT_FALSE(instruction_sets().empty());
  EXPECT_EQ(instruction_sets().back(), "SCALAR");
  for (const std::string& name : instruction_sets()) {
    use_instruction_set(name);
    for (const int64_t length :
         {0, 1, 15, 16, 17, 63, 64, 65, 79, 127, 1000, 16384, 66304, 66305, 70001}) {
      const auto gradient = wide_numbers(length, 1), residual = wide_numbers(length, 2);
      EXPECT_EQ(seen(gradient, residual, 8000), expected(gradient, residual, 8000))
          << name << ", " << length << " elements";
    }
  }
}

TEST_F(OnEveryInstructionSet, SeesWhatIsNotFiniteAndHitsNoneOfIt) {
  std::vector<float> numbers(16 * 9, 1.0f);
  numbers[5] = std::numeric_limits<float>::quiet_NaN();
  numbers[16 * 3] = -std::numeric_limits<float>::infinity();
  numbers[16 * 8 + 1] = std::numeric_limits<float>::infinity();
  std::fill_n(numbers.begin() + 16 * 4, 16, 3e38f);  // finite, their sum is not
  std::fill_n(numbers.begin() + 16 * 6, 16, 0.0f);
  for (const std::string& name : instruction_sets()) {
    use_instruction_set(name);
    Histogram histogram;
    std::vector<uint32_t> hits(kScanBlocks);
    const size_t found = scan(numbers, {.first = 0,
                                        .blocks = 9,
                                        .threshold = 0,
                                        .histogram = histogram.counts(),
                                        .hits = hits.data()});
    hits.resize(found);
    EXPECT_EQ(hits, (std::vector<uint32_t>{1, 2, 5, 7})) << name;
    EXPECT_EQ(histogram.not_finite(), 4) << name;
    EXPECT_EQ(histogram.bins()[0], 1u) << name;
  }
}

TEST(ScanDeathTest, WantsBlocksThatExist) {
  const std::vector<float> numbers(64);
  Histogram histogram;
  std::vector<uint32_t> hits(kScanBlocks);
  EXPECT_DEATH(
      scan(numbers,
           {.first = 4, .blocks = 1, .histogram = histogram.counts(), .hits = hits.data()}),
      "blocks 4 \\+ 1 of 4");
}

}  // namespace
}  // namespace tombolo::compress
