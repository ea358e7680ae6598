// CHECK: what must hold, or the program has a bug. Stays on in release builds.
//
//   CHECK(end >= start, "link {} freed at {} before {}", link, end, start);
//
// Things that can go wrong in the world return Result instead (result.h).
#pragma once

#include <fmt/format.h>

#include <string>

namespace tombolo {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

// Called with the text of a failed check, before the process is aborted. It may throw: code that is
// embedded in another program should raise an exception there rather than end it. Null, the default:
// no handler.
using OnFailedCheck = void (*)(const std::string& text);
void on_failed_check(OnFailedCheck handler);
}  // namespace tombolo

#define TOMBOLO_CHECK(condition, ...)                                                    \
  do {                                                                                   \
    if (!(condition)) [[unlikely]]                                                       \
      ::tombolo::check_failed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (false)
#undef CHECK  // glog's, which LibTorch includes (perform/train/torch_compat.h)
#define CHECK TOMBOLO_CHECK
