// The files that a command writes: all or none.
//
//   OutputFiles files;
//   TRY(files.add(options.csv, to_csv(...)));
//   TRY(files.add(options.report, to_page(...)));
//   TRY(files.commit());
//
// Until commit() the files of these names are what they were, so that a command that cannot write
// one of its answers replaces none. Devices and FIFOs are written at add(), as everywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace tombolo::command {

class OutputFiles {
 public:
  // An empty path is an answer that was not asked for. Unusable where the file cannot be written,
  // or holds another of the answers already.
  Status add(const std::string& path, std::string_view bytes);
  Status commit();

 private:
  std::vector<std::string> paths_;
  std::vector<AtomicFile> files_;
};

}  // namespace tombolo::command
