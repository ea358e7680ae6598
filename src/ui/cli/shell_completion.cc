#include "ui/cli/shell_completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tombolo {
namespace {

using command::CommandWords;
using command::OptionWords;

enum class Takes { kNothing, kChoice, kFile, kFolder, kTopic, kAnything };

Takes takes(const OptionWords& option) {
  static constexpr const char* kFiles[] = {"FILE",     "JOB",       "TRACE", "PREDICTED",
                                           "MEASURED", "TOKENIZER", "PREFIX"};
  if (option.value.empty()) return Takes::kNothing;
  if (!option.choices().empty()) return Takes::kChoice;
  if (option.value == "FOLDER") return Takes::kFolder;
  if (option.value == "TOPIC") return Takes::kTopic;
  const bool file =
      std::find(std::begin(kFiles), std::end(kFiles), option.value) != std::end(kFiles);
  return file ? Takes::kFile : Takes::kAnything;
}

std::vector<std::string> command_names(const Completed& words) {
  std::vector<std::string> names;
  for (const CommandWords& each : words.commands) {
    names.insert(names.end(), each.names.begin(), each.names.end());
  }
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::vector<std::string> values_of(const OptionWords& option, const Completed& words) {
  return takes(option) == Takes::kTopic ? words.topics : option.choices();
}

// What bash does where this value is to be completed.
std::string bash_action(const OptionWords& option, const Completed& words) {
  switch (takes(option)) {
    case Takes::kChoice:
    case Takes::kTopic:
      return fmt::format("_tombolo_words \"{}\"", joined(values_of(option, words)));
    case Takes::kFile:
      return "_tombolo_files -f";
    case Takes::kFolder:
      return "_tombolo_files -d";
    default:
      return ":";
  }
}

// Text within single quotes, for each shell's rules of what else has a meaning there.
std::string quoted(std::string_view text, std::string_view escaped, std::string_view quote) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += quote;
    } else {
      if (escaped.find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}
std::string in_zsh(std::string_view text) { return quoted(text, "[]:\\", "'\\''"); }
std::string in_fish(std::string_view text) { return quoted(text, "\\", "\\'"); }

std::string zsh_value(const OptionWords& option, const Completed& words) {
  const std::string name = in_zsh(option.choices().empty() ? option.value : "value");
  switch (takes(option)) {
    case Takes::kNothing:
      return "";
    case Takes::kChoice:
    case Takes::kTopic:
      return fmt::format(":{}:({})", name, joined(values_of(option, words)));
    case Takes::kFile:
      return fmt::format(":{}:_files", name);
    case Takes::kFolder:
      return fmt::format(":{}:_files -/", name);
    case Takes::kAnything:
      return fmt::format(":{}: ", name);
  }
  return "";
}

std::string fish_value(const OptionWords& option, const Completed& words) {
  switch (takes(option)) {
    case Takes::kNothing:
      return "";
    case Takes::kChoice:
    case Takes::kTopic:
      return fmt::format(" -x -a '{}'", joined(values_of(option, words)));
    case Takes::kFile:
      return " -r -F";
    case Takes::kFolder:
      return " -x -a '(__fish_complete_directories)'";
    case Takes::kAnything:
      return " -x";
  }
  return "";
}

}  // namespace

std::string bash_completion(const Completed& words) {
  std::string out = R"(# Completion of tombolo for bash: source <(tombolo completion bash)
_tombolo_words() { COMPREPLY=($(compgen -W "$1" -- "$word")); }
_tombolo_files() {
  compopt -o filenames 2> /dev/null
  local IFS=$'\n'
  COMPREPLY=($(compgen "$1" -- "$word"))
}
_tombolo() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
  COMPREPLY=()
  if [[ $word == = ]]; then word=""; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
  if ((COMP_CWORD == 1)); then
)";
  out += fmt::format("    _tombolo_words \"{} --help --version\"\n    return\n  fi\n",
                     joined(command_names(words)));
  out += "  case $command:$before in\n";
  for (const CommandWords& each : words.commands) {
    for (const OptionWords& option : each.options) {
      if (option.positional || option.value.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& command : each.names) {
        for (const std::string& name : option.names) patterns.push_back(command + ":" + name);
      }
      out += fmt::format("    {}) {}; return ;;\n", fmt::join(patterns, "|"),
                         bash_action(option, words));
    }
  }
  out += "  esac\n  case $command in\n";
  for (const CommandWords& each : words.commands) {
    std::vector<std::string> options = {"--help"};
    std::string positional = ":";
    for (const OptionWords& option : each.options) {
      if (option.positional) {
        positional = bash_action(option, words);
      } else {
        options.insert(options.end(), option.names.begin(), option.names.end());
      }
    }
    out += fmt::format("    {}) if [[ $word == -* ]]; then _tombolo_words \"{}\"; else {}; fi ;;\n",
                       fmt::join(each.names, "|"), joined(options), positional);
  }
  return out + "  esac\n}\ncomplete -F _tombolo tombolo\n";
}

std::string zsh_completion(const Completed& words) {
  std::string out = R"(#compdef tombolo
# Completion of tombolo for zsh: tombolo completion zsh > _tombolo, in a folder of $fpath
_tombolo() {
  local -a commands
  commands=(
)";
  for (const CommandWords& each : words.commands) {
    for (const std::string& name : each.names) {
      out += fmt::format("    '{}:{}'\n", name, in_zsh(each.line));
    }
  }
  out += R"(  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
)";
  for (const CommandWords& each : words.commands) {
    out += fmt::format("    {})\n      _arguments '--help[options, with an example]'",
                       fmt::join(each.names, "|"));
    for (const OptionWords& option : each.options) {
      const std::string value = zsh_value(option, words);
      if (option.positional) {
        out += fmt::format(" \\\n        '{}{}'", option.repeated ? "*" : "", value);
        continue;
      }
      for (const std::string& name : option.names) {
        out += fmt::format(" \\\n        '{}{}[{}]{}'", name, value.empty() ? "" : "=",
                           in_zsh(option.text), value);
      }
    }
    out += "\n      ;;\n";
  }
  return out + "  esac\n}\n_tombolo \"$@\"\n";
}

std::string fish_completion(const Completed& words) {
  std::string out =
      "# Completion of tombolo for fish: tombolo completion fish > "
      "~/.config/fish/completions/tombolo.fish\n";
  for (const CommandWords& each : words.commands) {
    for (const std::string& name : each.names) {
      out += fmt::format("complete -c tombolo -n __fish_use_subcommand -f -a {} -d '{}'\n", name,
                         in_fish(each.line));
    }
    const std::string here =
        fmt::format("complete -c tombolo -n '__fish_seen_subcommand_from {}'", joined(each.names));
    for (const OptionWords& option : each.options) {
      if (option.positional) {
        const std::string value = fish_value(option, words);
        if (value.starts_with(" -x -a")) out += here + " -f" + value.substr(3) + "\n";
        continue;
      }
      for (const std::string& name : option.names) {
        out += fmt::format("{} -l {}{} -d '{}'\n", here, name.substr(2), fish_value(option, words),
                           in_fish(option.text));
      }
    }
  }
  return out;
}

}  // namespace tombolo
