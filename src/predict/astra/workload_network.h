// The network and the NPUs that a job's cluster describes, as ASTRA-sim's inputs would say it: for
// who asks about a job and has no files.
//
// GPUs of a scale-up domain hang on one switch; domains, if there are several, hang on another by
// as many links as there are GPUs, GPU i of each to GPU i of the others. A link has the bandwidth
// of scale_up or scale_out per device, and half of its latency, for there are two to a message.
// Rings everywhere, four chunks, `localBWAware`; no delay at endpoints; reductions at the memory
// bandwidth of the device. Bounds: one datacenter; the ranks fill a domain, or whole domains.
#pragma once

#include "base/result.h"
#include "predict/astra/astra_system.h"
#include "predict/network/topology.h"
#include "spec/plan/job.h"

namespace tombolo::astra {

// Unusable: several datacenters; ranks that leave a domain partly empty.
Result<network::Topology> network_of(const plan::Job& job, int32_t ranks);
SystemSettings system_of(const plan::Job& job, size_t dimensions);

}  // namespace tombolo::astra
