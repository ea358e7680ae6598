#include "perform/generate/layer_times.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/check.h"

namespace tombolo::generate {
namespace {

int kind_of(int64_t rows) { return std::bit_width(static_cast<uint64_t>(rows)); }

}  // namespace

Flops layer_flops(const model::Model& m, const LayerWork& work) {
  const double rows = real(work.rows), hidden = real(m.hidden), wide = real(m.attention_width());
  const double kv = real(m.kv_heads * m.head_size());
  const double matrices =
      hidden * (2 * wide + 2 * kv) + hidden * real(m.ffn) * real(model::mlp_matrices(m));
  const double scores = rows * real(work.past) + rows * (rows + 1) / 2;
  const double head = work.head ? 2 * hidden * real(m.vocabulary) : 0;
  return Flops{2 * rows * matrices + 4 * wide * scores + head};
}

void LayerTimes::observe(const LayerWork& work, SimDuration took) {
  CHECK(work.rows > 0 && took.ns >= 0, "{} rows took {} ns", work.rows, took.ns);
  Kind& kind = kinds_[kind_of(work.rows)];
  kind.seconds_per_flop[kind.next] = seconds(took).value / layer_flops(model_, work).value;
  kind.next = (kind.next + 1) % kRemembered;
}

std::map<int, LayerTimes::Kind>::const_iterator LayerTimes::nearest(const LayerWork& work) const {
  auto at = kinds_.upper_bound(kind_of(work.rows));
  return at == kinds_.begin() ? at : std::prev(at);
}

void LayerTimes::forget_slowest(const LayerWork& work) {
  if (kinds_.empty()) return;
  auto& known = kinds_.at(nearest(work)->first).seconds_per_flop;
  *std::ranges::max_element(known) = 0;
}

void LayerTimes::forget_slowest_of_each() {
  for (auto& [power, kind] : kinds_) *std::ranges::max_element(kind.seconds_per_flop) = 0;
}

SimDuration LayerTimes::expect(const LayerWork& work) const {
  if (kinds_.empty()) return {};
  const double most = std::ranges::max(nearest(work)->second.seconds_per_flop);
  return round_to_ns(Seconds{most * layer_flops(model_, work).value});
}

}  // namespace tombolo::generate
