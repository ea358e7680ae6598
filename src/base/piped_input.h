// Inputs that come only once: standard input, pipes, FIFOs.
//
// Who reads a file looks at it more than once: what it is, then what it says. What comes through a
// pipe is therefore kept in memory when it is first opened, under its name and as long as the process
// lives, and is a plain file from then on.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace tombolo {

// As open(2) for reading, at the beginning; -1 with errno where that fails. "-" is standard input. Of
// what comes only once at most `limit` bytes and one more are kept.
int open_input(const std::string& path, int64_t limit);

// What does not lie in a folder, so that names in it are those of the working folder: "-", /dev/fd/63.
bool has_no_folder(const std::string& path);

}  // namespace tombolo
