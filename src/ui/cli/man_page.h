// tombolo(1): every command with its options, made of what the commands declare.
#pragma once

#include <string>
#include <vector>

#include "ui/command/words.h"

namespace tombolo {

std::string man_page(const std::vector<command::CommandWords>& commands,
                     const std::string& version);

}  // namespace tombolo
