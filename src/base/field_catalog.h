// The keys that a described struct has in files, with what each means: from the description that
// reads and writes them (fields.h).
//
//   for (const KeyEntry& key : keys_of<WanLink>("wan")) ... key.path == "wan.between"
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"

namespace tombolo {

struct KeyEntry {
  std::string path;           // "wan.connections"
  std::string kind;           // "time, such as \"34 ms\"", "\"a\" or \"b\"", "list of tables"
  std::string default_value;  // as a file has it; empty: none that can be written
  std::string limits;         // "must be positive"; empty: none
  std::string text;
  bool required = false;
  bool is_table = false;  // entries below it follow

  std::string table() const;  // "wan"
  std::string name() const;   // "connections"
  bool operator==(const KeyEntry&) const = default;
};

// The third reader of a description: collects instead of reading. It says kReads, so that it is shown
// every key that a file may have.
class FieldCatalog {
 public:
  static constexpr bool kReads = true;
  explicit FieldCatalog(std::string path) : path_(std::move(path)) {}

  template <typename T>
  void required(std::string_view key, T& value, KeyText about = {}) {
    add(key, value, about, true);
  }
  template <typename T>
  void optional(std::string_view key, T& value, KeyText about = {}) {
    add(key, value, about, false);
  }
  void check(bool, std::string_view key, std::string_view why, std::string = {});
  void refuse(std::string_view, std::string_view, std::string = {}) {}
  bool has(std::string_view) const { return true; }
  bool ok() const { return true; }
  std::vector<KeyEntry> take();

 private:
  std::string path_to(std::string_view key) const {
    return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  }
  // A description may name a key twice, first to look what it is: what is known of it adds up.
  void put(KeyEntry entry, std::vector<KeyEntry> below);

  template <typename T>
  static std::string kind_of() {
    if constexpr (std::is_same_v<T, bool>) {
      return "true or false";
    } else if constexpr (std::is_same_v<T, Value>) {
      return "";
    } else if constexpr (std::is_same_v<T, std::string>) {
      return "text";
    } else if constexpr (std::is_enum_v<T>) {
      std::string names;
      for (const auto& entry : enum_names(T{})) {
        names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", entry.name);
      }
      return names;
    } else if constexpr (std::is_integral_v<T>) {
      return "whole number";
    } else if constexpr (std::is_floating_point_v<T>) {
      return "number";
    } else if constexpr (detail::is_quantity<T>::value) {
      const std::string_view example = unit_table<T>().example;
      return fmt::format("text such as \"{}\"", example.substr(0, example.find("\" (")));
    } else if constexpr (detail::is_optional<T>::value) {
      return kind_of<typename T::value_type>();
    } else if constexpr (detail::is_vector<T>::value) {
      const std::string of = kind_of<typename T::value_type>();
      const bool word = of == "table" || of == "text" || of.ends_with("number");
      return of.empty() ? "list" : word ? "list of " + of + "s" : "list of: " + of;
    } else {
      return "table";
    }
  }

  template <typename T>
  static std::vector<KeyEntry> below(const std::string& path) {
    if constexpr (detail::is_optional<T>::value || detail::is_vector<T>::value) {
      return below<typename T::value_type>(path);
    } else if constexpr (std::is_class_v<T> && !detail::is_quantity<T>::value &&
                         !std::is_same_v<T, std::string> && !std::is_same_v<T, Value>) {
      T fresh{};
      FieldCatalog inner(path);
      describe(inner, fresh);
      return inner.take();
    } else {
      return {};
    }
  }

  template <typename T>
  static std::string default_of(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value ? "true" : "false";
    } else if constexpr (std::is_enum_v<T>) {
      return fmt::format("\"{}\"", to_name(value));
    } else if constexpr (std::is_integral_v<T> || std::is_floating_point_v<T>) {
      return fmt::format("{}", value);
    } else if constexpr (detail::is_quantity<T>::value) {
      return value.value == 0 ? "" : fmt::format("\"{}\"", format(value));
    } else if constexpr (std::is_same_v<T, std::string>) {
      return value.empty() ? "" : fmt::format("\"{}\"", value);
    } else {
      return "";
    }
  }

  template <typename T>
  void add(std::string_view key, T& value, KeyText about, bool required) {
    KeyEntry entry{.path = path_to(key), .text = about.text, .required = required};
    entry.kind = *about.kind ? about.kind : kind_of<T>();
    if (!required) entry.default_value = default_of(value);
    std::vector<KeyEntry> inner = below<T>(entry.path);
    entry.is_table = !inner.empty();
    put(std::move(entry), std::move(inner));
  }

  std::string path_;
  std::vector<KeyEntry> entries_;
};

template <typename T>
std::vector<KeyEntry> keys_of(const std::string& path = {}) {
  T fresh{};
  FieldCatalog catalog(path);
  describe(catalog, fresh);
  return catalog.take();
}

// Puts the entries `below` behind the key `path`, which a description reads as a Value.
void graft(std::vector<KeyEntry>& keys, const std::string& path, std::vector<KeyEntry> below);

}  // namespace tombolo
