// A Job as the text that people write: for `tombolo plan --out job.toml`.
//
// Everything is resolved: the model field by field, the cluster in the file, a device by name where
// the catalog has it. Paths are written relative to the folder of the new file. Reads back equal by
// parse_job, but for the notes; [stage_times] are left out.
#pragma once

#include <string>

#include "spec/plan/job.h"

namespace tombolo::plan {

// `path` is where the text will be written. `comment` stands above it, line by line.
std::string to_toml_text(const Job& job, const std::string& path, const std::string& comment);

}  // namespace tombolo::plan
