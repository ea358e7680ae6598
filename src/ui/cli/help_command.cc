// `tombolo help`: of the program, of a command, of the keys of files.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/fields.h"
#include "ui/cli/commands.h"
#include "ui/cli/key_reference.h"
#include "ui/cli/man_page.h"
#include "ui/command/words.h"

namespace tombolo {
namespace {

constexpr const char* kAllKeys = "keys";

struct HelpOptions {
  std::string topic;
  bool markdown = false;
  bool man = false;
};

// "# Keys of files" and all of them: docs/reference/keys.md.
std::string all_keys(const std::vector<FileKind>& files, bool markdown) {
  std::string out;
  if (markdown) {
    out =
        "# Keys of files\n\nMade by `tombolo help keys --markdown` of the descriptions that read "
        "these "
        "files. On a terminal: `tombolo help job`, or of one\ntable `tombolo help exchange`. "
        "Times, "
        "sizes, rates and prices are texts with a unit.\n\n";
  }
  for (size_t i = 0; i < files.size(); ++i) {
    if (i > 0) out += "\n";
    out += markdown ? keys_markdown(files[i]) : keys_text(files[i]);
  }
  return out;
}

// Of the files that have a table of this name the first, and that table.
std::string table_text(const std::vector<FileKind>& files, const std::string& topic) {
  for (const FileKind& file : files) {
    for (const KeyEntry& key : file.keys) {
      if (key.is_table && key.name() == topic) return keys_text(file, topic);
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> help_topics(const CLI::App& app) {
  std::vector<std::string> names;
  for (const command::CommandWords& each : command::commands_of(app)) {
    names.insert(names.end(), each.names.begin(), each.names.end());
  }
  for (const FileKind& file : file_kinds()) names.push_back(file.topic);
  names.emplace_back(kAllKeys);
  return names;
}

namespace {

Status help(const CLI::App& app, const HelpOptions& options, std::ostream& out) {
  if (options.man) {
    out << man_page(command::commands_of(app), command::version());
    return {};
  }
  if (options.topic.empty()) {
    out << command::help_text(app);
    return {};
  }
  for (const command::CommandWords& each : command::commands_of(app)) {
    if (std::find(each.names.begin(), each.names.end(), options.topic) == each.names.end())
      continue;
    out << command::help_text(each);
    return {};
  }
  const std::vector<FileKind> files = file_kinds();
  if (options.topic == kAllKeys) {
    out << all_keys(files, options.markdown);
    return {};
  }
  for (const FileKind& file : files) {
    if (file.topic != options.topic) continue;
    out << (options.markdown ? keys_markdown(file) : keys_text(file));
    return {};
  }
  const std::string table = table_text(files, options.topic);
  if (!table.empty()) {
    out << table;
    return {};
  }
  const std::string nearest = nearest_name(options.topic, help_topics(app));
  return unusable(
      fmt::format("tombolo help {}: there is no such command, file or table", options.topic),
      nearest.empty() ? "tombolo help, which lists the commands, or tombolo help job"
                      : "tombolo help " + nearest);
}

}  // namespace

command::Command add_help(CLI::App& app) {
  auto options = std::make_shared<HelpOptions>();
  CLI::App* words = command::add_command(
      app, {"help", command::kProgram, "a command, or the keys of job and other files",
            "tombolo help job"});
  command::heading(words, command::kGoesIn);
  words
      ->add_option(
          "topic", options->topic,
          "a command; job, cluster, hardware or plan-file: all keys of such a file; a table "
          "of one, such as exchange; keys: all of these; left out: the commands")
      ->type_name("TOPIC");
  command::heading(words, command::kComesOut);
  words->add_flag("--markdown", options->markdown, "keys as Markdown: docs/reference/keys.md");
  words->add_flag("--man", options->man, "the manual page of all commands: tombolo.1");
  return {words, [options, &app](std::ostream& out) { return help(app, *options, out); }};
}

}  // namespace tombolo
