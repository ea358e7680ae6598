// Limits that control groups (cgroups, version 2) put on this process.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tombolo {

// Folders of this process's control group and of those above it, up to the root of the hierarchy; the limits of
// each hold. `root`: a folder in place of "/", for tests. Without version 2 the root alone, which may not exist.
std::vector<std::string> control_groups(const std::string& root = "");

// Cores' worth of time that the process may use at most (cpu.max, CPUQuota of systemd), 0.33 for a third of one; nothing
// where there is no limit.
std::optional<double> cores_allowed(const std::string& root = "");

}  // namespace tombolo
