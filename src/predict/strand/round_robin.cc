#include "predict/strand/round_robin.h"

#include <algorithm>

namespace tombolo::strand {

double in_turn_seconds(const StrandPair& pair, std::vector<OperatorRun>* runs) {
  std::vector<double> rank(pair.size());
  for (size_t i = 0; i < pair.size(); ++i) {
    const bool forward = i < pair.forward().size();
    rank[i] = forward ? 2.0 * static_cast<double>(i)
                      : 2.0 * static_cast<double>(i - pair.forward().size()) + 1;
  }
  StrandPair queued = pair;
  queued.set_order(framework_order(pair.forward()), framework_order(pair.backward()));
  return co_run(queued, pair.all(), {.rank = rank, .discipline = Discipline::kInOrder}, runs);
}

}  // namespace tombolo::strand
