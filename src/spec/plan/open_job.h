// A job that leaves its parallelism open, wholly or in parts: what `tombolo plan` starts from.
//
// What [parallelism] gives as a number is fixed; what it leaves out or calls "auto" is searched,
// and so are training.micro_batch and training.recompute. The section may be left out as a whole.
// All else is as in job.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "spec/plan/job.h"

namespace tombolo::plan {

// What a job fixes; empty: searched.
struct Choices {
  std::optional<int64_t> tensor, context, data, pipeline, expert, virtual_stages, zero, micro_batch;
  std::optional<bool> sequence_parallel;
  std::optional<model::Recompute> recompute;
};

struct OpenJob {
  Job job;  // with defaults where nothing is fixed
  Choices fixed;
};

// Of a job file or of a Plan, which fixes everything.
Result<OpenJob> parse_open_job(std::string_view text, const std::string& file);
Result<OpenJob> open_job_from_value(Value value, const std::string& file);  // of a parsed file
Result<OpenJob> read_open_job(const std::string& path);

// For commands that decide again: of a Plan the model, the cluster and the training, and nothing of
// what was decided (setting_of, job_value.h). A job file is read as read_open_job reads it.
Result<OpenJob> read_setting(const std::string& path);

}  // namespace tombolo::plan
