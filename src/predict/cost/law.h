// The laws of an iteration that `--law` chooses from: one name each, one place that knows them.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/result.h"
#include "predict/cost/configuration.h"
#include "predict/cost/iteration.h"
#include "spec/plan/job.h"

namespace tombolo::cost {

enum class Law {
  kTombolo,   // operator by operator, with constants of device, fabric and stack (iteration.h)
  kRailOnly,  // the rail-only paper's (rail_only.h)
};
constexpr auto enum_names(Law) {
  return std::to_array<EnumName<Law>>({{Law::kTombolo, "tombolo"}, {Law::kRailOnly, "rail-only"}});
}

// The law that a person named with --law; of nothing the default, tombolo. Unusable: another name.
Result<Law> find_law(std::string_view name);

// A job as the laws see it: one configuration on one datacenter. Unusable: an order of parallelism
// that cannot be read. `file` is for messages.
Result<Configuration> configuration_of(const plan::Job& job);
Result<Configuration> configuration_of(const layout::Parallelism& parallelism,
                                       const plan::Training& training, const std::string& file);

// [parallelism].layers_per_stage summed up by position of the pipeline; empty where it is left out.
std::vector<int64_t> layers_at_positions(const layout::Parallelism& parallelism);

LawSettings settings_of(const plan::Decisions& decisions);

}  // namespace tombolo::cost
