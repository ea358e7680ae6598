// The part of `tombolo fabric` that takes a job: iterations per dollar with each fabric.
#pragma once

#include <ostream>
#include <string>

#include "base/result.h"
#include "base/value.h"
#include "decide/search/fabric_price.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::predict_commands {

struct PricedJob {
  plan::Job job;
  std::string source;  // of the iteration: "law rail-only", "given"
  search::FabricPrices prices;
};

// Reads the job of `options`, takes its iteration from --iteration or the law, and prices both
// fabrics.
Result<PricedJob> price_job(const FabricOptions& options,
                            const network::EquipmentPrices& equipment);

void print_priced_job(std::ostream& out, const PricedJob& priced);
Value priced_job_json(const PricedJob& priced);

}  // namespace tombolo::predict_commands
