#include "ui/command/words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <memory>

#include "base/fields.h"
#include "base/lone_number.h"

namespace tombolo::command {
namespace {

constexpr size_t kCommandColumn = 20;
constexpr size_t kLineWidth = 100;
constexpr int64_t kNoLimit =
    10'000'000;  // a larger number in a range is no limit that a user would meet

// CLI11 says a range as "INT in [1 - 1024]".
std::string range_of(std::string_view type) {
  if (type.find("POSITIVE") != std::string_view::npos) return "more than 0";
  if (type.find("NONNEGATIVE") != std::string_view::npos) return "";
  const size_t open = type.find(" in ["), middle = type.find(" - ", open);
  if (open == std::string_view::npos || middle == std::string_view::npos) return "";
  const std::string low(type.substr(open + 5, middle - open - 5));
  const std::string high(type.substr(middle + 3, type.find(']', middle) - middle - 3));
  if (std::stod(high) > kNoLimit) return fmt::format("at least {}", low);
  return fmt::format("{} to {}", low, high);
}

// CLI11 puts what a value is checked for behind its type name, and a colon between them.
std::string value_name(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  if (type.starts_with('{')) return type.substr(0, type.find('}') + 1);
  for (const auto& [number, name] :
       {std::pair{"INT", "N"}, std::pair{"UINT", "N"}, std::pair{"FLOAT", "NUMBER"}}) {
    if (type == number || type.starts_with(fmt::format("{}:", number))) return name;
  }
  const size_t check =
      std::min({type.find(":INT in"), type.find(":FLOAT in"), type.find(":TIME in"),
                type.find(":POSITIVE"), type.find(":NONNEGATIVE")});
  return type.substr(0, check);
}

// An empty list is none: "[]" of CLI11 2.1, "{}" of 2.4.
std::string default_of(const CLI::Option& option) {
  std::string text = option.get_default_str();
  if (text == "{}") return "";
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  return text;
}

OptionWords words_of(const CLI::Option& option) {
  OptionWords words;
  words.positional = option.get_positional();
  words.value = value_name(option);
  for (const std::string& name : option.get_snames()) words.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.names.push_back("--" + name);
  if (words.positional) words.names = {words.value};
  words.text = option.get_description();
  words.range = range_of(option.get_type_name());
  if (!words.value.empty()) words.default_value = default_of(option);
  if (!option.get_needs().empty()) words.only_with = (*option.get_needs().begin())->get_name();
  words.heading = option.get_group();
  words.required = option.get_required();
  words.repeated = option.get_items_expected_max() > 1;
  return words;
}

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    return app->get_parent() ? help_text(command::words_of(*app)) : help_text(*app);
  }
};

CLI::Option* name_values(CLI::Option* option, const std::vector<std::string>& values) {
  return option->type_name(fmt::format("{{{}}}", fmt::join(values, ",")));
}

// Headings, in the order of their first entries.
template <typename Entries>
std::vector<std::string> headings_of(const Entries& entries) {
  std::vector<std::string> headings;
  for (const auto& each : entries) {
    const bool known = std::find(headings.begin(), headings.end(), each.heading) != headings.end();
    if (!known && !each.heading.empty()) headings.push_back(each.heading);
  }
  return headings;
}

bool has_units(const CommandWords& command) {
  return std::any_of(command.options.begin(), command.options.end(), [](const OptionWords& each) {
    return each.value == "TIME" || each.value == "SIZE" || each.value == "RATE";
  });
}

}  // namespace

std::string entry(const std::string& left, const std::string& text, size_t column) {
  std::string out = "  " + left;
  if (out.size() + 2 > column) {
    out += "\n" + std::string(column, ' ');
  } else {
    out.resize(column, ' ');
  }
  size_t at = column;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (at > column && at + 1 + word.size() > kLineWidth) {
      out += "\n" + std::string(column, ' ');
      at = column;
    }
    if (at > column) {
      out += ' ';
      ++at;
    }
    out += word;
    at += word.size();
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
  return out + "\n";
}

CLI::App* add_command(CLI::App& app, const About& about) {
  CLI::App* words = app.add_subcommand(about.name, about.line);
  words->group(about.heading);
  words->footer(about.example);
  words->get_help_ptr()->group("");  // of every command, hence said once
  return words;
}

void heading(CLI::App* words, std::string_view text) {
  words->option_defaults()->group(std::string(text));
}

CLI::Option* suggestions(CLI::Option* option, const std::vector<std::string>& values) {
  return name_values(option, values);
}

CLI::Option* choices(CLI::Option* option, const std::vector<std::string>& values) {
  const auto check = [values](const std::string& word) -> std::string {
    if (std::find(values.begin(), values.end(), word) != values.end()) return "";
    return fmt::format("{} is not one of the known values\n  try one of {}", word,
                       fmt::join(values, ", "));
  };
  return name_values(option, values)->check(check);
}

CLI::Option* positive(CLI::Option* option) {
  const auto problem = [](const std::string& word) -> std::string {
    double number = 0;
    const char* const begin = word.data() + (word.starts_with('+') ? 1 : 0);
    const auto [rest, error] = std::from_chars(begin, word.data() + word.size(), number);
    const bool whole = error == std::errc{} && rest == word.data() + word.size();
    if (whole && std::isfinite(number) && number > 0) return "";
    return fmt::format("\"{}\": wanted a number above 0, as 40 or 2e12", word);
  };
  return option->check(CLI::Validator(problem, "POSITIVE"));
}

CLI::Option* add_time(CLI::App* words, const std::string& name, Seconds& value,
                      const std::string& text, Seconds least, Seconds most) {
  const auto read = [&value, name, least, most](const std::string& word) {
    const Result<Seconds> time = parse_lone_number<Seconds>(word, "s");
    if (!time) throw CLI::ValidationError(name, time.error().text());
    if (*time < least || *time > most) {
      throw CLI::ValidationError(
          name, fmt::format("{} is not between {} and {}", word, format(least), format(most)));
    }
    value = *time;
  };
  return words->add_option_function<std::string>(name, read, text)
      ->default_str(value == Seconds{} ? "0 s" : format(value))
      ->type_name(fmt::format("TIME:TIME in [{} - {}]", least == Seconds{} ? "0 s" : format(least),
                              format(most)));
}

std::vector<std::string> OptionWords::choices() const {
  std::vector<std::string> out;
  if (!value.starts_with('{')) return out;
  std::string_view rest = std::string_view(value).substr(1, value.size() - 2);
  while (!rest.empty()) {
    out.emplace_back(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), out.back().size() + 1));
  }
  return out;
}

std::string OptionWords::whole_text() const {
  std::vector<std::string> notes;
  if (required && !positional) notes.push_back("required");
  if (!range.empty()) notes.push_back(range);
  if (!default_value.empty()) notes.push_back("default " + default_value);
  if (!only_with.empty()) notes.push_back("with " + only_with);
  if (names.size() > 1 && names[0].starts_with("--")) {
    notes.push_back("also " + fmt::format("{}", fmt::join(names.begin() + 1, names.end(), ", ")));
  }
  return notes.empty() ? text : fmt::format("{} ({})", text, fmt::join(notes, "; "));
}

std::string CommandWords::usage() const {
  std::string out = "tombolo " + names.front();
  bool has_options = false;
  for (const OptionWords& option : options) {
    if (!option.positional) {
      has_options = true;
      if (option.required) out += fmt::format(" {} {}", option.names.front(), option.value);
      continue;
    }
    const std::string name = option.names.front() + (option.repeated ? "..." : "");
    out += option.required ? " " + name : " [" + name + "]";
  }
  return has_options ? out + " [options]" : out;
}

std::vector<std::string> CommandWords::headings() const { return headings_of(options); }

CommandWords words_of(const CLI::App& command) {
  CommandWords words;
  words.names = {command.get_name()};
  for (const std::string& alias : command.get_aliases()) words.names.push_back(alias);
  words.heading = command.get_group();
  words.line = command.get_description();
  words.example = command.get_footer();
  for (const CLI::Option* option : command.get_options()) {
    if (option != command.get_help_ptr()) words.options.push_back(words_of(*option));
  }
  return words;
}

std::string line_given(const CLI::App& command) {
  // In single quotes where a shell would take it apart.
  const auto quoted = [](const std::string& text) {
    return text.find_first_of(" *?[]{}()\"$&;|<>") == std::string::npos ? text : "'" + text + "'";
  };
  std::string places, options;
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = option->get_name();
    constexpr std::array kLeftOut{"--report", "--out", "--csv", "--json", "--threads"};
    if (std::find(kLeftOut.begin(), kLeftOut.end(), name) != kLeftOut.end()) continue;
    const bool flag = option->get_items_expected_max() == 0;
    if (!option->get_positional()) options += " " + name;
    if (flag) continue;
    for (const std::string& text : option->results())
      (option->get_positional() ? places : options) += " " + quoted(text);
  }
  return "tombolo " + command.get_name() + places + options;
}

std::vector<CommandWords> commands_of(const CLI::App& app) {
  std::vector<CommandWords> commands;
  for (const CLI::App* each : app.get_subcommands({})) commands.push_back(words_of(*each));
  return commands;
}

void use_help(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.option_defaults()->always_capture_default();
}

std::string help_text(const CommandWords& command) {
  std::string out = fmt::format("tombolo {}: {}\n\nUsage:    {}\n", command.names.front(),
                                command.line, command.usage());
  if (command.names.size() > 1) {
    out += fmt::format("Alias:    tombolo {}\n",
                       fmt::join(command.names.begin() + 1, command.names.end(), ", "));
  }
  out += fmt::format("Example:  {}\n", command.example);
  for (const std::string& heading : command.headings()) {
    out += fmt::format("\n{}:\n", heading);
    for (const OptionWords& option : command.options) {
      if (option.heading != heading) continue;
      out += entry(option.names.front() +
                       (option.positional || option.value.empty() ? "" : " " + option.value),
                   option.whole_text());
    }
  }
  if (has_units(command)) {
    out += "\nTimes, sizes and rates carry their unit: 30s, \"5 min\", 1GiB, 400Gbps.\n";
  }
  return out;
}

std::string help_text(const CLI::App& app) {
  std::string out = app.get_description() + "\n\nUsage:    tombolo COMMAND [options]\n";
  out += fmt::format("Example:  {}\n", "tombolo simulate examples/toy/job.toml --ascii");
  const std::vector<CommandWords> commands = commands_of(app);
  for (const std::string& heading : headings_of(commands)) {
    out += fmt::format("\n{}:\n", heading);
    for (const CommandWords& command : commands) {
      if (command.heading != heading) continue;
      out += entry(fmt::format("{}", fmt::join(command.names, ", ")), command.line, kCommandColumn);
    }
  }
  return out + "\n" + app.get_footer();
}

}  // namespace tombolo::command
