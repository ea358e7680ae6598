// The search within one setting: subsets of datacenters of some sizes, every order and number of stages.
//
// Split off from mixed.h so that settings can be searched side by side: each search knows the score
// that a plan must beat when it begins, and nothing of the others.
#pragma once

#include <cstdint>
#include <vector>

#include "decide/geo/mixed.h"
#include "decide/geo/mixed_setting.h"

namespace tombolo::geo {

// A plan in short.
struct MixedSplit {
  MixedSetting setting;
  std::vector<size_t> order;    // datacenters along the pipeline
  std::vector<int64_t> stages;  // of each of them
  Partition partition;
  double score = 0;
};
// A total order: score, then fewer datacenters, then the smaller numbers.
bool better_split(const MixedSplit& a, const MixedSplit& b);

// What is known of plans with some property: the best found, and a bound on what was cut off.
struct MixedOutlook {
  double found = std::numeric_limits<double>::infinity();
  double cut = std::numeric_limits<double>::infinity();
  void merge(const MixedOutlook& other);
};

struct MixedFindings {
  std::vector<MixedSplit> top;
  MixedOutlook all;
  std::vector<MixedOutlook> with;  // by datacenter: plans that use it
  int64_t evaluated = 0, feasible = 0;
  int64_t layers_held = 0;  // where nothing fits: the most layers that memory held
  bool stopped = false;     // not all was looked at
};

struct MixedTask {
  const plan::OpenJob& open;
  const MixedLaw& law;
  const MixedOptions& options;
};

// The least that the objective can be in a setting.
double setting_bound(const MixedTask& task, PricedSetting& priced, SetSizes sizes);

MixedFindings search_setting(const MixedTask& task, const MixedSetting& setting, SetSizes sizes,
                             double score_max);

}  // namespace tombolo::geo
