#include "predict/strand/sm_share.h"

#include <algorithm>

#include "base/check.h"

namespace tombolo::strand {
namespace {

// At which half of the link is reached: (x + 24/132) / (x + 64/132) (64/24) = 726/643 solved for x.
constexpr double kHalf = 0.04;

double reach(double share) { return share / (share + kHalf); }

}  // namespace

StrandPair with_sm_share(const StrandPair& pair, double from, double to) {
  CHECK(from > 0 && from < 1 && to > 0 && to < 1, "shares of {} and {} of the multiprocessors",
        from, to);
  StrandPair out = pair;
  const auto takes_some = [&](size_t op) {
    return is_communication(pair[op].kind) && !pair[op].no_sm;
  };
  for (size_t op = 0; op < pair.size(); ++op) {
    if (!takes_some(op)) continue;
    out.set_seconds(op, pair[op].seconds * reach(from) / reach(to));
    for (size_t work = 0; work < pair.size(); ++work) {
      if (is_communication(pair[work].kind)) continue;
      const double pace = std::min(1.0, pair.pace(work, op) * (1 - to) / (1 - from));
      out.set_pace(work, op, {pace, pair.pace(op, work), pair.pace_error(op, work)});
    }
  }
  return out;
}

}  // namespace tombolo::strand
