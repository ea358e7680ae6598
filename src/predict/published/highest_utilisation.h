// The highest model FLOPS utilisation (MFU) that has been published, by kind of device and class of
// model: a ceiling for predictions of runs that have not been measured.
//
// Most are rows of the reference tables, counted as an estimate counts: operations of the model
// (cost::model_flops) over peak x devices x measured time, the peak that of the row's precision.
// Rows of more than 8,192 tokens are left out: all scores of attention are counted, and those that
// a causal mask leaves out would be most of the operations. A few are single figures of sources
// that say too little to make a job of (data/reference/highest_utilisation.csv).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "predict/cost/constants.h"

namespace tombolo::published {

struct HighestUtilisation {
  std::string device;    // kind: whose constants (cost::DeviceConstants::kind, else name)
  bool experts = false;  // of mixtures of experts; else of dense models
  double mfu = 0;
  std::string run;   // which one reached it
  int64_t runs = 0;  // how many were considered
};

const std::string& kind_of(const cost::DeviceConstants& device);

// Sorted by device, dense models first. Kinds without a published run are missing.
Result<std::vector<HighestUtilisation>> highest_utilisations();

}  // namespace tombolo::published
