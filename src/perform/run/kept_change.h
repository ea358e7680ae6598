// The newest change of what a run tunes, in a file next to the journal: for a launcher that continues the run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "base/file.h"
#include "base/json.h"

namespace tombolo::run {

// Nothing where the file is missing, or damaged.
template <class Change>
std::optional<Change> read_change(const std::string& file) {
  const auto text = read_file(file);
  const auto value = text ? parse_json(*text, file) : Result<Value>(tl::unexpected(text.error()));
  if (!value) return std::nullopt;
  auto newest = read_fields<Change>(*value, file);
  return newest ? std::optional<Change>(std::move(*newest)) : std::nullopt;
}

// Where `file` is not empty. On a full disk a launcher that continues this run begins with the change before, or the Plan's.
template <class Change>
void keep_change(const std::string& file, Change change) {
  if (!file.empty()) static_cast<void>(write_file(file, to_json(write_fields(change), -1)));
}

inline void forget_change(const std::string& file) {
  std::error_code ec;
  if (!file.empty()) std::filesystem::remove(file, ec);
}

}  // namespace tombolo::run
