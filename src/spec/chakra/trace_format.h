// Which sort of file is this? Told by its first bytes, never by its name.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo::chakra {

enum class TraceFormat {
  kChakra,   // protobuf or JSON, gzipped or not
  kPytorch,  // an execution trace of PyTorch, JSON that begins with its schema
  kOther,    // a job, a Plan, a Trace, ...
};

TraceFormat format_of(std::string_view beginning);
Result<TraceFormat> read_format(const std::string& path);  // unusable() if it cannot be read

}  // namespace tombolo::chakra
