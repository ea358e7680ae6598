#include "perform/link/message.h"

#include <fmt/format.h>

namespace tombolo::link {

std::string text(const Tag& tag) {
  return fmt::format("iteration {} tensor {}", tag.iteration, tag.tensor);
}

}  // namespace tombolo::link
