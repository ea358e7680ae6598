#include "steer/prefill/durations.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tombolo::prefill {
namespace {

// Up to the next nanosecond, where there is more to it than the rounding of doubles.
SimDuration ceiling(double seconds) {
  return {static_cast<int64_t>(std::ceil(seconds * 1e9 - 1e-6))};
}

}  // namespace

Result<DurationTable> DurationTable::make(std::vector<Row> rows) {
  if (rows.empty()) return unusable("a table of prefill times without a row");
  const Row* before = nullptr;
  for (const Row& row : rows) {
    const auto where = [&] { return fmt::format("prefill of {} tokens", row.tokens); };
    if (row.tokens < 1 || (before && row.tokens <= before->tokens)) {
      return unusable(fmt::format("{}: tokens must ascend from at least 1", where()));
    }
    for (const Seconds time : {row.layer, row.ends, row.transfer}) {
      if (!(time.value >= 0 && time.value <= 3600)) {
        return unusable(
            fmt::format("{}: takes {}: must lie between 0 and an hour", where(), format(time)));
      }
    }
    if (row.layer.value <= 0) return unusable(where() + ": a layer must take some time");
    if (before &&
        (row.layer < before->layer || row.ends < before->ends || row.transfer < before->transfer)) {
      return unusable(fmt::format("{}: takes less than {} tokens do", where(), before->tokens));
    }
    before = &row;
  }
  return DurationTable(std::move(rows));
}

PromptTime DurationTable::at(int64_t tokens) const {
  CHECK(tokens >= 1 && tokens <= tokens_max(), "a prompt of {} tokens; at most {}", tokens,
        tokens_max());
  const auto above =
      std::lower_bound(rows_.begin(), rows_.end(), tokens,
                       [](const Row& row, int64_t wanted) { return row.tokens < wanted; });
  const Row& high = *above;
  const Row& low = above == rows_.begin() ? high : *(above - 1);
  const double part =
      high.tokens == low.tokens ? 0 : real(tokens - low.tokens) / real(high.tokens - low.tokens);
  const auto between = [&](Seconds a, Seconds b) {
    return ceiling(a.value + part * (b.value - a.value));
  };
  return {between(low.layer, high.layer), between(low.ends, high.ends),
          between(low.transfer, high.transfer)};
}

}  // namespace tombolo::prefill
