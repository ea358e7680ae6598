#include "predict/strand/stream_picture.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tombolo::strand {

std::string picture(const StrandPair& pair, std::span<const OperatorRun> runs, double seconds,
                    size_t width) {
  CHECK(width > 0, "a picture without width");
  std::array<std::string, kStreams> rows;
  std::array<bool, kStreams> used{};
  for (std::string& row : rows) row.assign(width, ' ');
  const auto column = [&](double time) {
    const double at = std::round(time / seconds * static_cast<double>(width));
    return static_cast<size_t>(std::clamp(at, 0.0, static_cast<double>(width)));
  };
  for (const OperatorRun& run : runs) {
    const Operator& op = pair[run.op];
    const auto stream = static_cast<size_t>(op.stream);
    used[stream] = true;
    const size_t from = column(run.start), to = column(run.end);
    const char fill = run.op < pair.forward().size() ? '-' : '=';
    for (size_t at = from; at < to; ++at) {
      const size_t letter = at - from;
      const bool first = letter == 0;
      const bool named = !first && letter <= op.name.size() && op.name.size() + 1 <= to - from;
      rows[stream][at] = first ? '|' : named ? op.name[letter - 1] : fill;
    }
  }
  std::string out;
  for (size_t stream = 0; stream < kStreams; ++stream) {
    if (!used[stream]) continue;
    out += fmt::format("  {:<8}{}|\n", to_name(static_cast<Stream>(stream)), rows[stream]);
  }
  return out;
}

}  // namespace tombolo::strand
