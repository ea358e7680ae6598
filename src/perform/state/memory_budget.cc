#include "perform/state/memory_budget.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/check.h"
#include "base/control_group.h"
#include "base/file.h"

namespace tombolo::state {
namespace {

// The number behind a word at the beginning of a line: "MemAvailable:   2048 kB", "inactive_file 9".
std::optional<int64_t> number_of(std::string_view text, std::string_view word) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(word)) continue;
    line.remove_prefix(word.size());
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    int64_t number = 0;
    const auto [at, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (error == std::errc{}) return number;
  }
  return std::nullopt;
}

std::string text_of(const std::string& path) { return read_file(path).value_or(""); }

// What a control group still allows; pages of files that it can drop count as free.
std::optional<int64_t> allowed_by(const std::string& group) {
  const auto most = number_of(text_of(group + "/memory.max"), "");  // or the word "max"
  const auto used = number_of(text_of(group + "/memory.current"), "");
  if (!most || !used) return std::nullopt;
  const int64_t files = number_of(text_of(group + "/memory.stat"), "inactive_file ").value_or(0);
  return std::max<int64_t>(*most - *used + files, 0);
}

}  // namespace

std::optional<int64_t> memory_available(const std::string& root) {
  std::optional<int64_t> least;
  const auto consider = [&](std::optional<int64_t> bytes) {
    if (bytes) least = std::min(*bytes, least.value_or(*bytes));
  };
  const auto kilobytes = number_of(text_of(root + "/proc/meminfo"), "MemAvailable:");
  if (kilobytes) consider(*kilobytes * 1024);
  for (const std::string& group : control_groups(root)) consider(allowed_by(group));
  return least;
}

Room half_of_the_host(int64_t ranks, std::function<std::optional<int64_t>()> available) {
  CHECK(ranks >= 1 && available, "{} ranks on this host", ranks);
  return [ranks, available = std::move(available)](int64_t bytes) {
    const std::optional<int64_t> free = available();
    return !free || bytes <= *free / 2 / ranks;
  };
}

}  // namespace tombolo::state
