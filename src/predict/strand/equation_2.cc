#include "predict/strand/equation_2.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "predict/strand/co_run.h"

namespace tombolo::strand {

std::vector<double> equation_2(const SegmentTimes& p) {
  const size_t nf = p.forward.size(), nb = p.backward.size();
  CHECK(p.paired.size() == nf * nb, "{} pairs of {} and {} segments", p.paired.size(), nf, nb);
  std::vector<double> t((nf + 1) * (nb + 1), std::numeric_limits<double>::infinity());
  const auto at = [&](size_t i, size_t j) -> double& { return t[i * (nb + 1) + j]; };
  at(0, 0) = 0;
  for (size_t i = 0; i <= nf; ++i) {
    for (size_t j = 0; j <= nb; ++j) {
      double& best = at(i, j);
      if (i > 0) best = std::min(best, at(i - 1, j) + p.forward[i - 1]);
      if (j > 0) best = std::min(best, at(i, j - 1) + p.backward[j - 1]);
      if (i > 0 && j > 0) best = std::min(best, at(i - 1, j - 1) + p.paired[(i - 1) * nb + j - 1]);
    }
  }
  return t;
}

SegmentTimes segment_times(const StrandPair& pair, std::span<const OperatorSet> forward,
                           std::span<const OperatorSet> backward, double barrier) {
  SegmentTimes out;
  for (const OperatorSet f : forward) {
    out.forward.push_back(barrier + segment_seconds(pair, {f, 0}));
    for (const OperatorSet b : backward) {
      out.paired.push_back(barrier + segment_seconds(pair, {f, b}));
    }
  }
  for (const OperatorSet b : backward) {
    out.backward.push_back(barrier + segment_seconds(pair, {0, b}));
  }
  return out;
}

std::vector<OperatorSet> single_operators(const Dag& dag) {
  std::vector<OperatorSet> out;
  for (size_t i = 0; i < dag.size(); ++i) out.push_back(only(i));
  return out;
}

}  // namespace tombolo::strand
