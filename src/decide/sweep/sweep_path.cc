#include "decide/sweep/sweep_path.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/fields.h"
#include "spec/cluster/cluster.h"

namespace tombolo::sweep {
namespace {

// The two ends of a link; empty where the entry is none.
std::vector<std::string> ends_of(const Value& entry) {
  const Value* between = entry.find("between");
  const auto* array = between ? between->get<Value::Array>() : nullptr;
  std::vector<std::string> ends;
  for (size_t i = 0; array && i < array->size(); ++i) {
    if (const auto* text = (*array)[i].get<std::string>()) ends.push_back(*text);
  }
  return ends.size() == 2 ? ends : std::vector<std::string>();
}

bool is_called(const Value& entry, const std::string& name) {
  const std::vector<std::string> ends = ends_of(entry);
  if (!ends.empty() && ends[1] + "-" + ends[0] == name) return true;
  return sweep_entry_name(entry) == name;
}

std::string list_of_names(const Value::Array& list) {
  std::string names;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = sweep_entry_name(list[i]);
    names += (i == 0 ? "" : ", ") + (name.empty() ? fmt::format("[{}]", i) : name);
  }
  return names.empty() ? "the list is empty" : "one of " + names + ", or * for all";
}

std::string list_of_keys(const Value& table, const std::string& misspelt) {
  std::vector<std::string> keys;
  for (const auto& entry : *table.get<Value::Table>()) keys.push_back(entry.first);
  const std::string near = nearest_name(misspelt, keys);
  if (!near.empty()) return fmt::format("\"{}\"", near);
  return keys.empty() ? "" : fmt::format("one of {}", fmt::join(keys, ", "));
}

}  // namespace

std::string sweep_entry_name(const Value& entry) {
  if (const Value* name = entry.find("name")) {
    if (const auto* text = name->get<std::string>()) return *text;
  }
  const std::vector<std::string> ends = ends_of(entry);
  return ends.empty() ? "" : ends[0] + "-" + ends[1];
}

Result<SweepPath> SweepPath::parse(std::string_view text) {
  SweepPath path;
  path.text_ = std::string(text);
  const auto bad = [&](const char* why) {
    return unusable(fmt::format("--vary {}: {}", text, why),
                    "a path such as training.global_batch or cluster.wan[0].connections");
  };
  size_t at = 0;
  while (true) {
    std::string key;
    if (at < text.size() && text[at] == '"') {
      const size_t end = text.find('"', at + 1);
      if (end == std::string_view::npos) return bad("a quote is not closed");
      key = text.substr(at + 1, end - at - 1);
      at = end + 1;
    } else {
      const size_t end = std::min(text.find_first_of(".[", at), text.size());
      key = text.substr(at, end - at);
      at = end;
    }
    if (key.empty()) return bad("a step without a name");
    path.steps_.push_back({key, -1});
    while (at < text.size() && text[at] == '[') {
      const size_t end = text.find(']', at);
      if (end == std::string_view::npos) return bad("a bracket is not closed");
      Step step;
      const char* last = text.data() + end;
      const auto [stop, error] = std::from_chars(text.data() + at + 1, last, step.number);
      if (error != std::errc() || stop != last || step.number < 0) {
        return bad("wanted a number between brackets");
      }
      path.steps_.push_back(step);
      at = end + 1;
    }
    if (at == text.size()) return path;
    if (text[at] != '.') return bad("wanted a dot after a step");
    ++at;
  }
}

std::string SweepPath::before(size_t step) const {
  std::string out;
  for (size_t i = 0; i < step; ++i) {
    if (steps_[i].number >= 0) {
      out += fmt::format("[{}]", steps_[i].number);
    } else {
      out += (i == 0 ? "" : ".") + steps_[i].key;
    }
  }
  return out;
}

Error SweepPath::complaint(size_t step, const std::string& why, std::string hint) const {
  return {ErrorCode::kUnusable,
          fmt::format("--vary {}: {} {}", text_, step == 0 ? "the job" : before(step), why),
          {},
          std::move(hint)};
}

Result<int64_t> SweepPath::put(Value& job, const Value& value) const {
  CHECK(!steps_.empty(), "a path without a step would replace the job");
  return put(job, 0, value);
}

Result<int64_t> SweepPath::put(Value& at, size_t step, const Value& value) const {
  if (step == steps_.size()) {
    at = value;
    return 0;
  }
  if (auto* list = at.get<Value::Array>()) return put_in_list(*list, step, value);
  const std::string& key = steps_[step].key;
  const bool is_device = step > 0 && steps_[step - 1].key == "device";
  if (const auto* name = at.get<std::string>(); name && is_device) {
    at = write_fields(TRY(during(cluster::catalog_device(*name), "varying " + text_)));
  }
  auto* table = at.get<Value::Table>();
  if (!table) return fail(complaint(step, fmt::format("is {}, not a table", at.kind())));
  if (steps_[step].number >= 0) {
    return fail(complaint(step, "is a table, not a list", list_of_keys(at, "")));
  }
  if (key == "*") return fail(complaint(step, "is no list", list_of_keys(at, key)));
  for (auto& [known, entry] : *table) {
    if (known == key) return put(entry, step + 1, value);
  }
  if (step + 1 == steps_.size()) {
    table->emplace_back(key, value);
    return 1;
  }
  // A section that was left out may be begun; a list cannot, and a misspelt one should not.
  std::vector<std::string> keys;
  for (const auto& entry : *table) keys.push_back(entry.first);
  const bool begins_section = steps_[step + 1].number < 0 && steps_[step + 1].key != "*";
  if (!begins_section || !nearest_name(key, keys).empty()) {
    return fail(complaint(step, fmt::format("has no \"{}\"", key), list_of_keys(at, key)));
  }
  Value section{Value::Table{}};
  TRY(put(section, step + 1, value));
  table->emplace_back(key, std::move(section));
  return 1;
}

Result<int64_t> SweepPath::put_in_list(Value::Array& list, size_t step, const Value& value) const {
  const Step& which = steps_[step];
  int64_t added = 0;
  if (which.number >= 0) {
    if (which.number >= static_cast<int64_t>(list.size())) {
      return fail(complaint(step, fmt::format("has {} entries, no [{}]", list.size(), which.number),
                            list_of_names(list)));
    }
    return put(list[static_cast<size_t>(which.number)], step + 1, value);
  }
  bool found = false;
  for (Value& entry : list) {
    if (which.key != "*" && !is_called(entry, which.key)) continue;
    added += TRY(put(entry, step + 1, value));
    found = true;
  }
  if (found) return added;
  return fail(complaint(step, fmt::format("has no \"{}\"", which.key), list_of_names(list)));
}

}  // namespace tombolo::sweep
