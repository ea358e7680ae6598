#include "perform/compress/top_k.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace tombolo::compress {

size_t share_of(size_t count, double density) {
  const auto share = std::llround(static_cast<double>(count) * density);
  return std::min(count, std::max<size_t>(static_cast<size_t>(share), 1));
}

void append_largest(std::span<const float> numbers, size_t begin, size_t end, size_t k,
                    std::vector<uint32_t>& to) {
  std::vector<uint32_t> order(end - begin);
  std::iota(order.begin(), order.end(), static_cast<uint32_t>(begin));
  const auto middle = order.begin() + static_cast<int64_t>(std::min(k, order.size()));
  std::nth_element(order.begin(), middle, order.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(-std::fabs(numbers[a]), a) < std::pair(-std::fabs(numbers[b]), b);
  });
  std::sort(order.begin(), middle);
  to.insert(to.end(), order.begin(), middle);
}

Result<std::vector<std::byte>> compress_top_k(const TopKOptions& options,
                                              std::span<const float> gradient,
                                              std::span<float> residual) {
  CHECK(residual.size() == gradient.size() && gradient.size() <= UINT32_MAX,
        "a residual of {} numbers for {}", residual.size(), gradient.size());
  CHECK(options.density > 0 && options.density <= 1, "a density of {}", options.density);
  const auto decay = static_cast<float>(options.decay);
  size_t not_finite = 0;
  for (size_t i = 0; i < residual.size(); ++i) {
    residual[i] = decay * residual[i] + gradient[i];
    if (!std::isfinite(residual[i])) ++not_finite;
  }
  if (not_finite > 0) return failed(fmt::format("{} numbers are not finite", not_finite));
  ChosenNumbers chosen{.length = std::ssize(residual), .ids = {}, .values = {}};
  append_largest(residual, 0, residual.size(), share_of(residual.size(), options.density),
                 chosen.ids);
  for (const uint32_t id : chosen.ids) chosen.values.push_back(std::exchange(residual[id], 0.0f));
  return encode_coordinates(chosen);
}

std::vector<std::byte> encode_coordinates(const ChosenNumbers& chosen) {
  const size_t count = chosen.ids.size();
  CHECK(chosen.values.size() == count && count <= UINT32_MAX, "{} values of {} elements",
        chosen.values.size(), count);
  std::vector<std::byte> message(4 + 8 * count);
  const auto written = static_cast<uint32_t>(count);
  std::memcpy(message.data(), &written, 4);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(message.data() + 4 + 8 * i, &chosen.ids[i], 4);
    std::memcpy(message.data() + 8 + 8 * i, &chosen.values[i], 4);
  }
  return message;
}

Result<ChosenNumbers> decode_coordinates(std::span<const std::byte> message, int64_t length) {
  uint32_t count = 0;
  if (message.size() < 4) return failed("coordinates without their number");
  std::memcpy(&count, message.data(), 4);
  if (message.size() != 4 + 8 * uint64_t{count})
    return failed(fmt::format("{} coordinates in {} bytes", count, message.size()));
  ChosenNumbers chosen{
      .length = length, .ids = std::vector<uint32_t>(count), .values = std::vector<float>(count)};
  int64_t before = -1;
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(&chosen.ids[i], message.data() + 4 + 8 * i, 4);
    std::memcpy(&chosen.values[i], message.data() + 8 + 8 * i, 4);
    const int64_t id = chosen.ids[i];
    if (id <= before || id >= length || !std::isfinite(chosen.values[i])) {
      return failed(fmt::format("coordinate {} after {} of {} elements, value {}", id, before,
                                length, chosen.values[i]));
    }
    before = id;
  }
  return chosen;
}

}  // namespace tombolo::compress
