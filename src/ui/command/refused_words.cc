#include "ui/command/refused_words.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "base/fields.h"

namespace tombolo::command {
namespace {

// The command or option that there is not; none where something else is wrong with the words.
std::optional<Error> misspelt(const CLI::App& app, const std::vector<std::string>& words) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  std::vector<std::string> known;
  if (chosen.empty()) {
    if (words.empty() || words[0].starts_with('-')) return {};
    for (const CLI::App* each : app.get_subcommands({})) {
      known.push_back(each->get_name());
      for (const std::string& alias : each->get_aliases()) known.push_back(alias);
    }
    const std::string nearest = nearest_name(words[0], known);
    return Error{ErrorCode::kUnusable,
                 fmt::format("tombolo: there is no command \"{}\"", words[0]),
                 {},
                 nearest.empty() ? "tombolo help, which lists them" : "tombolo " + nearest};
  }
  const CLI::App& command = *chosen.front();
  for (const CLI::Option* each : command.get_options()) {
    for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
  }
  for (const std::string& word : command.remaining(true)) {
    if (!word.starts_with("--") || word == "--") continue;
    const std::string option = word.substr(0, word.find('='));
    const std::string nearest = nearest_name(option, known);
    return Error{ErrorCode::kUnusable,
                 fmt::format("tombolo {}: there is no option {}", command.get_name(), option),
                 {},
                 nearest.empty() ? fmt::format("tombolo {} --help", command.get_name()) : nearest};
  }
  return {};
}

}  // namespace

Error refused_words(const CLI::App& app, const std::vector<std::string>& words,
                    const CLI::ParseError& error) {
  if (const std::optional<Error> unknown = misspelt(app, words)) return *unknown;
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::string command = chosen.empty() ? "tombolo" : "tombolo " + chosen.front()->get_name();
  // Some say already what to try.
  constexpr std::string_view kTry = "\n  try ";
  const std::string what = error.what();
  const size_t end = what.find(kTry);
  return {ErrorCode::kUnusable,
          fmt::format("{}: {}", command, what.substr(0, end)),
          {},
          end == std::string::npos ? command + " --help" : what.substr(end + kTry.size())};
}

}  // namespace tombolo::command
