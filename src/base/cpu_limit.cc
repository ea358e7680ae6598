#include "base/cpu_limit.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/units.h"

namespace tombolo {
namespace {

namespace fs = std::filesystem;

// "33333 100000" as cores; "max 100000" and -1 are no limit.
double cores_of(const std::string& quota_and_period) {
  std::istringstream text(quota_and_period);
  double quota = 0, period = 0;
  if (!(text >> quota >> period) || quota <= 0 || period <= 0) return kInfinity;
  return quota / period;
}

std::string text_of(const fs::path& path) { return read_file(path.string()).value_or(""); }

double least_of(const std::string& mount, fs::path group) {
  double least = kInfinity;
  for (;; group = group.parent_path()) {
    const fs::path folder = mount + group.string();
    least = std::min(least, cores_of(text_of(folder / "cpu.max")));
    least = std::min(least, cores_of(text_of(folder / "cpu.cfs_quota_us") + " " +
                                     text_of(folder / "cpu.cfs_period_us")));
    if (!group.has_relative_path()) return least;
  }
}

}  // namespace

double cpu_limit(const std::string& root) {
  double least = kInfinity;
  // Lines "0::/job/step" of version 2, and "4:cpu,cpuacct:/job/step" of version 1.
  std::istringstream lines(text_of(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    const std::string groups = root + "/sys/fs/cgroup";
    if (controllers.empty()) least = std::min(least, least_of(groups, group));
    if (("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    least = std::min(least, least_of(groups + "/cpu", group));
  }
  return least;
}

}  // namespace tombolo
