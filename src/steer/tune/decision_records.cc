#include "steer/tune/decision_records.h"

#include <map>

namespace tombolo::tune {

void add_decisions(std::span<const DensityDecision> decisions, std::span<const LineBelief> beliefs,
                   std::vector<trace::Record>& records) {
  std::map<int64_t, size_t> densities;  // by iteration, of the lowest rank
  for (size_t i = 0; i < records.size(); ++i) {
    if (records[i].name != "density") continue;
    const auto [found, is_new] = densities.try_emplace(records[i].iteration, i);
    if (!is_new && records[i].rank < records[found->second].rank) found->second = i;
  }
  // A rank that hears of a decision late obeys a few iterations later, but before the next one.
  for (size_t d = 0; d < decisions.size(); ++d) {
    auto at = densities.lower_bound(decisions[d].first_iteration);
    const auto end = d + 1 < decisions.size()
                         ? densities.lower_bound(decisions[d + 1].first_iteration)
                         : densities.end();
    while (at != end && records[at->second].value != decisions[d].density) ++at;
    if (at != end) records[at->second].reason = decisions[d].reason;
  }
  for (const LineBelief& belief : beliefs) {
    const auto of = densities.find(belief.iteration);
    if (of == densities.end() || belief.rate.value <= 0) continue;
    const int32_t rank = records[of->second].rank;
    const SimTime at = records[of->second].at;
    records.push_back({.name = "line_rate",
                       .iteration = belief.iteration,
                       .rank = rank,
                       .at = at,
                       .value = belief.rate.value});
  }
}

// All ranks begin a division with the same iteration.
void add_decisions(std::span<const BatchDecision> decisions, std::vector<trace::Record>& records) {
  std::map<int64_t, trace::Record*> lowest;  // by iteration
  for (trace::Record& record : records) {
    if (record.name != "microbatches") continue;
    trace::Record*& of = lowest[record.iteration];
    if (!of || record.rank < of->rank) of = &record;
  }
  for (const BatchDecision& decision : decisions) {
    const auto of = lowest.find(decision.first_iteration);
    if (of != lowest.end()) of->second->reason = decision.reason;
  }
}

}  // namespace tombolo::tune
