// The keys of job, cluster, hardware and Plan files, as `tombolo help` prints them: made of the
// descriptions that read these files (base/field_catalog.h).
#pragma once

#include <string>
#include <vector>

#include "base/field_catalog.h"

namespace tombolo {

struct FileKind {
  std::string topic;  // "job"
  std::string title;  // "Job file"
  std::string about;
  std::vector<KeyEntry> keys;
};
std::vector<FileKind> file_kinds();

// All tables of a file, or those called `table`.
std::string keys_text(const FileKind& file, const std::string& table = {});
std::string keys_markdown(const FileKind& file);

}  // namespace tombolo
