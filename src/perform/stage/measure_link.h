// Measures a link of the Plan as it is on this host: latency and rate between two Endpoints shaped
// as the runtime shapes them, with run.byte_scale taken out again. The difference to the cluster
// file is what the host adds.
#pragma once

#include "base/clock.h"
#include "spec/plan/hardware.h"
#include "spec/plan/plan.h"

namespace tombolo::stage {

struct MeasureLinkOptions {
  int64_t small_messages = 9;  // for the latency: eight bytes each, one at a time
  int64_t large_messages = 3;  // for the rate: plan.boundary bytes each, one at a time
};

// From rank to rank, in two threads of this process. Medians. Takes about (small + large) round
// trips plus the large messages' time on the link.
Result<plan::MeasuredLink> measure_link(const plan::Plan& plan, int32_t from, int32_t to,
                                        const Clock& clock, const MeasureLinkOptions& options = {});

// Every pair of datacenters between which the Plan sends, once. None for Plans whose transfers were
// imagined ([stage_times]).
Result<std::vector<plan::MeasuredLink>> measure_links(const plan::Plan& plan, const Clock& clock,
                                                      const MeasureLinkOptions& options = {});

}  // namespace tombolo::stage
