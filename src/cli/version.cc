#include "cli/commands.h"

namespace tombolo::cli {

std::string version() {
  constexpr std::string_view commit = TOMBOLO_COMMIT;
  return commit.empty() ? TOMBOLO_VERSION : fmt::format("{} ({})", TOMBOLO_VERSION, commit);
}

}  // namespace tombolo::cli
