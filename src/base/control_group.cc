#include "base/control_group.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "base/file.h"

namespace tombolo {
namespace {

// The line "0::/system.slice/ssh.service" of version 2.
std::string own_group(const std::string& root) {
  const std::string text = read_file(root + "/proc/self/cgroup").value_or("");
  constexpr std::string_view kWord = "0::";
  const size_t at = text.find(kWord);
  if (at == std::string::npos) return "/";
  const size_t begin = at + kWord.size();
  return text.substr(begin, std::min(text.find('\n', begin), text.size()) - begin);
}

// "33000 100000": quota and period, in microseconds; "max 100000" is no limit.
std::optional<double> share_of(const std::string& cpu_max) {
  double quota = 0, period = 0;
  const char* const end = cpu_max.data() + cpu_max.size();
  const auto [after, error] = std::from_chars(cpu_max.data(), end, quota);
  if (error != std::errc{} || after == end) return std::nullopt;
  const auto [last, bad] = std::from_chars(after + 1, end, period);
  if (bad != std::errc{} || !(quota > 0) || !(period > 0)) return std::nullopt;
  return quota / period;
}

}  // namespace

std::vector<std::string> control_groups(const std::string& root) {
  std::vector<std::string> folders;
  for (std::filesystem::path group = own_group(root);; group = group.parent_path()) {
    folders.push_back(root + "/sys/fs/cgroup" + group.string());
    if (!group.has_relative_path()) return folders;
  }
}

std::optional<double> cores_allowed(const std::string& root) {
  std::optional<double> least;
  for (const std::string& group : control_groups(root)) {
    const auto share = share_of(read_file(group + "/cpu.max").value_or(""));
    if (share) least = std::min(*share, least.value_or(*share));
  }
  return least;
}

}  // namespace tombolo
