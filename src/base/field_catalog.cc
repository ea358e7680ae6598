#include "base/field_catalog.h"

#include <cctype>

namespace tombolo {
namespace {

// "must divide heads = 0" of a struct that has only its defaults: without the number. Empty where it is
// of a choice that a file would make.
std::string without_numbers(std::string_view why) {
  if (why.find_first_of("\":") != std::string_view::npos) return "";
  std::string out(why);
  for (size_t at = out.find(" = "); at != std::string::npos; at = out.find(" = ", at)) {
    size_t end = at + 3;
    while (end < out.size() && std::isdigit(static_cast<unsigned char>(out[end]))) ++end;
    if (end == at + 3) {
      at = end;
    } else {
      out.erase(at, end - at);
    }
  }
  return out;
}

}  // namespace

std::string KeyEntry::table() const {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string KeyEntry::name() const { return path.substr(path.rfind('.') + 1); }

void FieldCatalog::check(bool, std::string_view key, std::string_view why, std::string) {
  const std::string path = path_to(key);
  for (KeyEntry& entry : entries_) {
    if (entry.path != path) continue;
    if (why == "is needed") entry.required = true;
    if (entry.limits.empty() && why.starts_with("must ")) entry.limits = without_numbers(why);
  }
}

std::vector<KeyEntry> FieldCatalog::take() { return std::move(entries_); }

void FieldCatalog::put(KeyEntry entry, std::vector<KeyEntry> below) {
  for (KeyEntry& known : entries_) {
    if (known.path != entry.path) continue;
    const bool says_kind = !entry.kind.empty() && (known.kind.empty() || !entry.text.empty());
    if (says_kind) known.kind = std::move(entry.kind);
    if (known.text.empty()) known.text = std::move(entry.text);
    if (known.default_value.empty()) known.default_value = std::move(entry.default_value);
    known.required = known.required && entry.required;
    return;
  }
  entries_.push_back(std::move(entry));
  for (KeyEntry& each : below) entries_.push_back(std::move(each));
}

void graft(std::vector<KeyEntry>& keys, const std::string& path, std::vector<KeyEntry> below) {
  const auto at =
      std::find_if(keys.begin(), keys.end(), [&](const KeyEntry& key) { return key.path == path; });
  CHECK(at != keys.end(), "there is no key {}", path);
  at->is_table = true;
  for (KeyEntry& each : below) each.path = path + "." + each.path;
  keys.insert(at + 1, std::make_move_iterator(below.begin()), std::make_move_iterator(below.end()));
}

}  // namespace tombolo
