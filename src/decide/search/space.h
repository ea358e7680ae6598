// The configurations worth trying for a model on a cluster: the axes of a SearchSpace.
//
//   tensor      divides heads, kv_heads, hidden, MLP width and sequence; at most a scale-up domain
//   context     2 c divides the sequence (causal attention is balanced in 2 c pieces); a rank keeps
//               at least 1024 tokens
//   pipeline    divides the layers, or with embedding and head counted as a layer each; other
//               numbers where they divide the devices, the first stages having one layer more
//   data        divides the global batch
//   expert      divides the number of routed experts
//   virtual     at most 16 chunks per device
//   microbatch divides the global batch; at most 32 sequences
//
// Limits exclude configurations that are not worth running; they are stated with every answer. What
// a job fixes is taken as it is, even beyond the limits, as long as it divides.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "decide/search/search.h"
#include "predict/cost/law.h"
#include "spec/plan/open_job.h"

namespace tombolo::search {

struct SpaceLimits {
  int64_t tensor_max = 0;  // 0: the scale-up domain
  int64_t context_tokens_min = 1024;
  int64_t virtual_stages_max = 16;
  int64_t microbatch_max = 32;
  bool all_devices = false;  // SearchSpace
};

// One sentence per limit, for people.
std::string limits_text(const SpaceLimits& limits, int64_t domain);

// Unusable: a job without model or with several datacenters, an order that cannot be read, a fixed
// number that cannot divide what it must, or that the law does not know.
Result<SearchSpace> make_space(const plan::OpenJob& open, cost::Law law, const SpaceLimits& limits);

// The job, which has a model, with all of a configuration made explicit.
plan::Job with_configuration(plan::Job job, const cost::Configuration& configuration);

}  // namespace tombolo::search
