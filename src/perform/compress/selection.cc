#include "perform/compress/selection.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "perform/compress/compressor.h"
#include "perform/compress/top_k.h"

namespace tombolo::compress {
namespace {

std::vector<uint32_t> elements_of(const std::vector<uint32_t>& blocks, size_t length) {
  std::vector<uint32_t> ids;
  ids.reserve(blocks.size() * kBlock);
  for (const uint32_t block : blocks) {
    const size_t begin = size_t{block} * kBlock;
    for (size_t i = begin; i < std::min(begin + kBlock, length); ++i) {
      ids.push_back(static_cast<uint32_t>(i));
    }
  }
  return ids;
}

class BySteps : public Selection {
 public:
  explicit BySteps(std::function<std::vector<uint32_t>(std::span<const float>)> step)
      : step_(std::move(step)) {}
  std::vector<uint32_t> select(std::span<const float> numbers) override { return step_(numbers); }

 private:
  std::function<std::vector<uint32_t>(std::span<const float>)> step_;
};

class OurBlocks : public Selection {
 public:
  OurBlocks(double density, int64_t exact_every)
      : compressor_({.density = density, .exact_every = exact_every}) {}
  std::vector<uint32_t> select(std::span<const float> numbers) override {
    std::vector<uint32_t> blocks;
    compressor_.select(numbers, state_, blocks);
    return elements_of(blocks, numbers.size());
  }

 private:
  BlockCompressor compressor_;
  SelectionState state_;
};

class AimdBlocks : public Selection {
 public:
  explicit AimdBlocks(double density) : density_(density) {}
  std::vector<uint32_t> select(std::span<const float> numbers) override {
    const auto length = static_cast<int64_t>(numbers.size());
    std::vector<float> norms(static_cast<size_t>(blocks_of(length)));
    for (size_t b = 0; b < norms.size(); ++b) {
      norms[b] = block_norm(numbers, static_cast<int64_t>(b));
    }
    const auto target = static_cast<size_t>(block_target(length, density_, 1));
    if (threshold_ == 0) begin(norms, target);
    std::vector<uint32_t> blocks;
    for (size_t b = 0; b < norms.size(); ++b) {
      if (norms[b] >= threshold_) blocks.push_back(static_cast<uint32_t>(b));
    }
    threshold_ = blocks.size() > target ? threshold_ + increase_ : threshold_ * 0.9f;
    return elements_of(blocks, numbers.size());
  }

 private:
  void begin(std::vector<float> norms, size_t target) {
    const auto at = norms.begin() + static_cast<int64_t>(target) - 1;
    std::nth_element(norms.begin(), at, norms.end(), std::greater<>());
    threshold_ = *at;
    increase_ = threshold_ / 20;
  }
  double density_;
  float threshold_ = 0, increase_ = 0;
};

class FixedThreshold : public Selection {
 public:
  explicit FixedThreshold(double density) : density_(density) {}
  std::vector<uint32_t> select(std::span<const float> numbers) override {
    std::vector<uint32_t> ids;
    if (threshold_ == 0) {
      append_largest(numbers, 0, numbers.size(), share_of(numbers.size(), density_), ids);
      threshold_ = INFINITY;
      for (const uint32_t id : ids) threshold_ = std::min(threshold_, std::fabs(numbers[id]));
      return ids;
    }
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (std::fabs(numbers[i]) >= threshold_) ids.push_back(static_cast<uint32_t>(i));
    }
    return ids;
  }

 private:
  double density_;
  float threshold_ = 0;
};

std::vector<uint32_t> largest_of_chunks(std::span<const float> numbers, double density) {
  constexpr size_t kChunk = 4096;
  std::vector<uint32_t> ids;
  for (size_t begin = 0; begin < numbers.size(); begin += kChunk) {
    const size_t end = std::min(begin + kChunk, numbers.size());
    append_largest(numbers, begin, end, share_of(end - begin, density), ids);
  }
  return ids;
}

// Knuth's selection sampling: exactly k, in order.
std::vector<uint32_t> drawn(Random& random, size_t length, size_t k) {
  std::vector<uint32_t> ids;
  for (size_t i = 0; ids.size() < k; ++i) {
    if (random.below(length - i) < k - ids.size()) ids.push_back(static_cast<uint32_t>(i));
  }
  return ids;
}

}  // namespace

std::vector<std::string> selection_names() {
  return {"blocks", "blocks-exact", "blocks-aimd", "threshold-v",
          "top-k",  "chunk-top-k",  "random-k"};
}

Result<std::unique_ptr<Selection>> make_selection(std::string_view name, double density,
                                                  uint64_t seed) {
  using Numbers = std::span<const float>;
  CHECK(density > 0 && density <= 1, "a density of {}", density);
  if (name == "blocks") return std::make_unique<OurBlocks>(density, 64);
  if (name == "blocks-exact") return std::make_unique<OurBlocks>(density, 1);
  if (name == "blocks-aimd") return std::make_unique<AimdBlocks>(density);
  if (name == "threshold-v") return std::make_unique<FixedThreshold>(density);
  if (name == "top-k") {
    return std::make_unique<BySteps>([density](Numbers numbers) {
      std::vector<uint32_t> ids;
      append_largest(numbers, 0, numbers.size(), share_of(numbers.size(), density), ids);
      return ids;
    });
  }
  if (name == "chunk-top-k") {
    return std::make_unique<BySteps>(
        [density](Numbers numbers) { return largest_of_chunks(numbers, density); });
  }
  if (name == "random-k") {
    return std::make_unique<BySteps>([density, random = Random(seed)](Numbers numbers) mutable {
      return drawn(random, numbers.size(), share_of(numbers.size(), density));
    });
  }
  return unusable(fmt::format("unknown selection \"{}\"", name),
                  fmt::format("one of {}", fmt::join(selection_names(), ", ")));
}

}  // namespace tombolo::compress
