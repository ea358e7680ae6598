#include "base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace tombolo {
namespace {
std::atomic<OnFailedCheck> failed_check_handler{nullptr};
}  // namespace

void on_failed_check(OnFailedCheck handler) { failed_check_handler = handler; }

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  const std::string text =
      fmt::format("{}:{}: bug: {} does not hold: {}", file, line, condition, message);
  if (const OnFailedCheck handler = failed_check_handler) handler(text);
  std::fprintf(stderr, "%s\n", text.c_str());
  std::abort();
}

}  // namespace tombolo
