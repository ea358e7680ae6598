// `tombolo astra` where no files say what every rank does: the workload of a job
// (astra/workload_run.h), or of traces of another number of ranks (chakra/retarget.h).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/value.h"
#include "predict/astra/workload_run.h"
#include "spec/chakra/retarget.h"

namespace tombolo::predict_commands {

struct JobAnswer {
  astra::WorkloadAnswer run;  // the caller that prints takes its `answer`
  int32_t microbatches = 0;
  std::vector<std::string> notes;  // on the job's own cluster: what sets it apart from `estimate`

  std::string brief(const astra::AstraAnswer& answer) const;
  Value to_value(const astra::AstraAnswer& answer) const;
};

// Without a network file or a system file it is the network and the NPUs of the job's cluster
// (network_of, astra/workload_run.h).
Result<JobAnswer> run_job(const std::string& job, const workload::WorkloadOptions& workload,
                          const astra::AstraOptions& options);

// If the two differ by 5 % or more: which collectives contend on what, one sentence each. Also names
// partly empty domains.
std::vector<std::string> compared_with_estimate(const plan::Job& job,
                                                const astra::AstraAnswer& answer);

// The same in two steps, where there are several systems.
Result<workload::Workload> workload_of_job(const std::string& job,
                                           const workload::WorkloadOptions& options);
Result<astra::WorkloadAnswer> run_job(const workload::Workload& workload,
                                      const astra::AstraSystem& system,
                                      const astra::AstraOptions& options);
Result<astra::AstraAnswer> run_retargeted(const chakra::RetargetOptions& retarget,
                                          const astra::AstraSystem& system,
                                          const astra::AstraOptions& options, bool notes = false);

Result<astra::AstraAnswer> run_retargeted(const chakra::RetargetOptions& retarget,
                                          const astra::AstraOptions& options);

}  // namespace tombolo::predict_commands
