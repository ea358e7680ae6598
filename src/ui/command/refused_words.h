// What is wrong with the words of a command, and what may be meant.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tombolo::command {

// `words` without the program's name: what `app` could not parse, and threw `error` for. Unusable:
//
//   tombolo plan: there is no option --objectiv
//     try --objective
Error refused_words(const CLI::App& app, const std::vector<std::string>& words,
                    const CLI::ParseError& error);

}  // namespace tombolo::command
