// What makes a job fit into memory that does not.
//
// Advice by the largest part alone may lead in a circle: more stages hold more microbatches each, zero
// needs replicas, recomputation helps nothing where activations are small. So changes are tried, few
// before many, each priced and counted as the job itself.
#pragma once

#include <string>

#include "spec/plan/job.h"

namespace tombolo::cost {

// "zero = 1", "micro_batch = 1 and recompute = \"full\"": changes with which the job fits. Where none is
// found, that, and what is left to do. Empty where there is nothing to try: a job that says its times
// itself or is too large to be tried many times over, and one that serves prompts, whose weights may be
// what is too much. Cost: up to some 2,000 Plans of this size.
std::string memory_remedy(const plan::Job& job);

}  // namespace tombolo::cost
