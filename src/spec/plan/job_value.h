// A job as the Value that all readers of jobs begin with, from a job file or from a Plan.
//
// Every command that takes a job takes what `tombolo plan --out` wrote, job.toml and plan.json
// alike, because this is the one place that tells them apart. Read as a job, a Plan says
//
//   [model] [cluster] [training] [optimizer] [parallelism] [exchange] [data]
//   [run] [checkpoint] [prefill]
//            as they stand in it; [model] is left out where the Plan has none
//   [stage_times]
//            where its times were given or measured: those of its stages. Times that a law said are
//            left to the law, which says them again
//   datacenter_per_stage or datacenter_per_replica
//            where its ranks sit, if the cluster has several datacenters
//
// What no job can say is in `notes`: measured links, and a schedule that was found for this Plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/value.h"
#include "spec/plan/plan.h"

namespace tombolo::plan {

struct JobValue {
  Value value = {};                     // job_from_value and open_job_from_value read it
  bool from_plan = false;               // it holds decisions, rather than wishes
  bool given_schedule = false;          // of a Plan: it was found, and has no name
  std::string constants = {};           // of a Plan: the digest of those that priced it
  std::vector<std::string> notes = {};  // what of a Plan was left out, one sentence each
};

// Jobs are TOML and Plans are JSON, and only a Plan begins with a brace.
bool is_plan(std::string_view text);

// `file` is for messages, and what paths in the result are relative to. Unusable: text that is
// neither; a Plan that validate() refuses, or whose ranks sit where no job would put them.
Result<JobValue> parse_job_value(std::string_view text, const std::string& file);
Result<JobValue> read_job_value(const std::string& path);  // at most 64 MB

// What a search starts from: of a Plan with a model everything but [parallelism] and [stage_times],
// which speak for what was decided; of [parallelism] where samples and labels are. Else all of it.
Value setting_of(JobValue job);

// A key of [stage_times]: one text where all stages agree, so that the job may have any number of them.
Value per_stage_value(const std::vector<Seconds>& times);

// The job that a Plan says, for a file at `file`. Cost: O(stages + ranks).
Result<JobValue> to_job_value(const Plan& plan, const std::string& file);

}  // namespace tombolo::plan
