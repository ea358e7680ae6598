// What makes a job fit into memory that does not.
//
// Advice by the largest part alone may lead in a circle: more stages hold more microbatches each, zero
// needs replicas, recomputation helps nothing where activations are small. So changes are tried, few
// before many, each priced and counted as the job itself.
#pragma once

#include <string>

#include "spec/plan/job.h"

namespace tombolo::cost {

// "zero = 1", "micro_batch = 1 and recompute = \"full\"": changes with which the job fits. Where none
// fits, that, and what is left to do. Empty where it is not known: a job that says its times itself, one so
// large that `passes_max` are spent before all was tried, and one that serves prompts, whose weights may
// be what is too much. Cost: up to 2,000 Plans, and schedules of passes_max passes of a microbatch through
// a stage, some 3 s.
std::string memory_remedy(const plan::Job& job, int64_t passes_max = 10'000'000);

// What to try first where a job with [prefill] does not fit; nothing of a job without.
inline std::string less_prefill(const plan::Decisions& asked) {
  return asked.prefill ? "a smaller memory in [prefill], " : "";
}

}  // namespace tombolo::cost
