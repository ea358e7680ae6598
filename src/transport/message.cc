#include "transport/message.h"

#include <fmt/format.h>

namespace tombolo::transport {

std::string text(const Tag& tag) {
  return fmt::format("iteration {} tensor {}", tag.iteration, tag.tensor);
}

}  // namespace tombolo::transport
