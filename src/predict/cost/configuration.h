// Configuration: one way to spread a training over devices, as the planner tries them by the
// thousand.
//
// The degrees of layout::Parallelism, and what else the laws need to know of the training.
//
// Ranks are numbered innermost first: with the default order a scale-up domain is filled by tensor
// parallelism, what is left of it by context, then data, then pipeline (GroupPlacement).
#pragma once

#include <cstdint>

#include "base/check.h"
#include "base/result.h"
#include "spec/layout/parallelism.h"
#include "spec/model/model.h"

namespace tombolo::cost {

// A degree of parallelism as a grid: `domain` (x, subscript h) devices share a scale-up domain, in
// each of `network` (y, subscript l) domains.
struct DegreeSplit {
  int64_t domain = 1;
  int64_t network = 1;

  int64_t degree() const { return domain * network; }
  bool operator==(const DegreeSplit&) const = default;
};

// Degrees are laid over a domain one after the other, innermost first. Each takes the greatest
// common divisor of itself and of what is left, so that no group straddles domains unevenly (the
// rail-only paper's constraints 12 and 14 to 16), and leaves the rest: t = 4, d = 6 in a domain of
// 8 give t = 4 x 1 and d = 2 x 3.
DegreeSplit take_from_domain(int64_t degree, int64_t& left);

struct Configuration : layout::Degrees {
  int64_t micro_batch = 1;   // sequences
  int64_t global_batch = 1;  // sequences
  layout::ScheduleKind schedule = layout::ScheduleKind::k1F1B;
  model::Recompute recompute = model::Recompute::kNone;
  layout::DimensionOrder order = layout::kMegatronOrder;
  int64_t stages_of_rank = 1;  // where they are priced one by one, with virtual_stages = 1

  int64_t microbatches() const {  // of a pipeline
    CHECK(micro_batch > 0 && data > 0, "microbatches of {} in {} pipelines", micro_batch, data);
    return global_batch / (micro_batch * data);
  }
  int64_t gradient_sums() const { return with_all_stages().gradient_sums(microbatches()); }
  double whole_gradients() const { return with_all_stages().whole_gradients(microbatches()); }
  // All forward passes first, instead of 1F1B.
  bool all_forwards_first() const {
    return layout::traits_of(schedule).has(layout::kAllForwardsFirst);
  }
  bool operator==(const Configuration&) const = default;

 private:
  layout::Degrees with_all_stages() const {
    layout::Degrees all = *this;
    all.virtual_stages *= stages_of_rank;
    return all;
  }
};

// The devices of a domain that a job fills, so that its groups do not straddle domains: 64 of the
// 72 of an NVL72 for 256 devices, all 72 for 576. Domains of a power of two are filled.
int64_t usable_domain(int64_t domain, int64_t devices);

// Where the groups of a configuration lie in scale-up domains of `domain` devices.
struct GroupPlacement {
  DegreeSplit tensor, context, data, pipeline;
  DegreeSplit expert;     // innermost ranks of context and data
  DegreeSplit gradients;  // context x data: the ranks that sum the same gradients
};
GroupPlacement lay_out(const Configuration& configuration, int64_t domain);

}  // namespace tombolo::cost
