#include "ui/cli/key_reference.h"

#include <set>

#include "spec/plan/hardware.h"
#include "spec/plan/job.h"
#include "spec/plan/plan_file.h"
#include "ui/command/words.h"

namespace tombolo {
namespace {

// The tables of a file in the order of their headings, "" first.
std::vector<std::string> tables_of(const FileKind& file) {
  std::vector<std::string> tables = {""};
  for (const KeyEntry& key : file.keys) {
    if (key.is_table) tables.push_back(key.path);
  }
  return tables;
}

// "cluster.wan" as TOML has it: [[cluster.wan]] where it is a list.
std::string table_heading(const FileKind& file, const std::string& table) {
  for (const KeyEntry& key : file.keys) {
    if (key.path != table) continue;
    const bool list = key.kind.starts_with("list");
    return fmt::format("{}{}{}", list ? "[[" : "[", table, list ? "]]" : "]");
  }
  return "";
}

std::string meaning(const KeyEntry& key) {
  std::string text = key.text;
  if (!key.limits.empty()) text += "; " + key.limits;
  return text;
}

std::string value_of(const KeyEntry& key) {
  std::string text = key.kind;
  if (key.required) text += ", required";
  if (!key.default_value.empty()) text += ", default " + key.default_value;
  return text;
}

const KeyEntry* find_key(const FileKind& file, const std::string& path) {
  for (const KeyEntry& key : file.keys) {
    if (key.path == path) return &key;
  }
  return nullptr;
}

// Without the tables that a job has under the same name, which say the same.
std::vector<KeyEntry> beyond_job(std::vector<KeyEntry> keys, const std::vector<KeyEntry>& job) {
  std::set<std::string> known;
  for (const KeyEntry& key : job) {
    if (key.is_table) known.insert(key.path);
  }
  const auto repeats = [&](const KeyEntry& key) {
    const std::string top = key.path.substr(0, key.path.find('.'));
    return key.path != top && known.contains(top);
  };
  std::erase_if(keys, repeats);
  for (KeyEntry& key : keys) key.is_table = key.is_table && !known.contains(key.path);
  return keys;
}

std::string in_markdown(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
    text.replace(at, 1, "\\|");
  }
  return text;
}

}  // namespace

std::vector<FileKind> file_kinds() {
  const std::vector<KeyEntry> job = plan::job_keys();
  return {
      {"job", "Job file", "What a person writes (TOML): a model, a cluster, and how to train.",
       job},
      {"cluster", "Cluster file",
       "What [cluster] of a job says, in a file of its own (TOML): [cluster] file = \"FILE\".",
       plan::cluster_keys()},
      {"hardware", "Hardware file",
       "What tombolo profile measured on a machine (JSON), for --hardware; tables of a job mean "
       "what they mean there.",
       beyond_job(plan::hardware_keys(), job)},
      {"plan-file", "Plan file",
       "What was decided (JSON), as tombolo plan --out and simulate --out-plan write it; tables of "
       "a job mean what they mean there.",
       beyond_job(plan::plan_keys(), job)},
  };
}

std::string keys_text(const FileKind& file, const std::string& table) {
  std::string out = fmt::format("{}. {}\n", file.title, file.about);
  for (const std::string& each : tables_of(file)) {
    const KeyEntry* heading = find_key(file, each);
    if (!table.empty() && (!heading || heading->name() != table)) continue;
    if (heading) {
      out += fmt::format("\n{}{}\n", table_heading(file, each),
                         meaning(*heading).empty() ? "" : "  " + meaning(*heading));
    } else {
      out += "\n";
    }
    for (const KeyEntry& key : file.keys) {
      if (key.table() != each) continue;
      out += command::entry(key.name(), fmt::format("{} ({})", meaning(key), value_of(key)));
    }
  }
  return out;
}

std::string keys_markdown(const FileKind& file) {
  std::string out = fmt::format("## {}\n\n{}\n", file.title, file.about);
  for (const std::string& each : tables_of(file)) {
    const KeyEntry* heading = find_key(file, each);
    if (heading) {
      out += fmt::format("\n### `{}`\n\n{}\n", table_heading(file, each),
                         in_markdown(meaning(*heading)));
    }
    out += "\n| key | value | default | meaning |\n|---|---|---|---|\n";
    for (const KeyEntry& key : file.keys) {
      if (key.table() != each) continue;
      const std::string default_value = key.required ? "required"
                                        : key.default_value.empty()
                                            ? ""
                                            : fmt::format("`{}`", key.default_value);
      out += fmt::format("| `{}` | {} | {} | {} |\n", key.name(), in_markdown(key.kind),
                         default_value, in_markdown(meaning(key)));
    }
  }
  return out;
}

}  // namespace tombolo
