#include "ui/command/output_files.h"

#include <algorithm>
#include <filesystem>

namespace tombolo::command {

Status OutputFiles::add(const std::string& path, std::string_view bytes) {
  if (path.empty()) return {};
  std::error_code ec;
  const std::filesystem::path whole = std::filesystem::weakly_canonical(path, ec);
  const std::string name = ec ? path : whole.string();
  if (std::find(paths_.begin(), paths_.end(), name) != paths_.end()) {
    return unusable(fmt::format("{}: two answers cannot be written to one file", path),
                    "another name for one of them");
  }
  AtomicFile file = TRY(AtomicFile::create(path));
  TRY(file.write(bytes));
  paths_.push_back(name);
  files_.push_back(std::move(file));
  return {};
}

Status OutputFiles::commit() {
  for (AtomicFile& file : files_) TRY(file.commit());
  files_.clear();
  paths_.clear();
  return {};
}

}  // namespace tombolo::command
