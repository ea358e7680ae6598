#include "base/result.h"

namespace tombolo {

std::string Error::text() const {
  std::string out = message;
  for (const std::string& doing : context) out += "\n  while " + doing;
  if (!hint.empty()) out += "\n  try " + hint;
  return out;
}

}  // namespace tombolo
