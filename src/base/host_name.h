// What this host calls itself.
#pragma once

#include <string>

namespace tombolo {

std::string host_name();  // empty: it has no name

}  // namespace tombolo
