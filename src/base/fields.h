// Structs <-> Values, from one description per type.
//
//   template <class Archive>
//   void describe(Archive& a, WanLink& link) {
//     a.required("between", link.between, "the two datacenters that it joins");
//     a.optional("connections", link.connections, "TCP connections");   // left out: its default
//     a.check(link.connections > 0, "connections", "must be at least 1");
//   }
//   Result<WanLink> link = read_fields<WanLink>(value, "three-dc.toml");
//   Value again = write_fields(*link);
//
// The same description reads TOML and JSON and writes JSON, so that what is written reads back
// equal. Messages carry file, line, key, value and what to try; unknown keys are refused with the
// nearest known one. Members may be bool, integers, double, std::string, a Quantity (as text with a
// unit), an enum with names (below), a described struct, and std::vector or std::optional of those.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "base/result.h"
#include "base/units.h"
#include "base/value.h"

namespace tombolo {

template <typename E>
struct EnumName {
  E value;
  std::string_view name;
};
// Overload for an enum that stands in files, in its own namespace:
//   constexpr auto enum_names(Precision) { return std::to_array<EnumName<Precision>>({...}); }
template <typename E>
std::string_view to_name(E value) {
  for (const auto& entry : enum_names(E{})) {
    if (entry.value == value) return entry.name;
  }
  return "?";
}
template <typename E>
std::optional<E> from_name(std::string_view name) {
  for (const auto& entry : enum_names(E{})) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

// The known name nearest to a misspelt one, or "" where none is near.
std::string nearest_name(std::string_view misspelt, const std::vector<std::string>& known);

// What to try where one of the known names was wanted: "\"1f1b\"; all: gpipe, 1f1b" for "1F1B",
// "one of gpipe, 1f1b" where none is near: a quarter of the letters may be wrong, at least one, or
// their order. Capitals do not count.
std::string one_of(std::string_view misspelt, const std::vector<std::string>& known);

// What a key means, for `tombolo help job` (field_catalog.h): a few words, and of a Value what it may
// be. Units and names are in the type. Readers and writers pass it over.
struct KeyText {
  constexpr KeyText(const char* words = "", const char* value = "") : text(words), kind(value) {}
  const char* text;
  const char* kind;
};

class FieldReader;
class FieldWriter;
struct KeyEntry;  // field_catalog.h

namespace detail {
template <typename T>
struct is_vector : std::false_type {};
template <typename T>
struct is_vector<std::vector<T>> : std::true_type {};
template <typename T>
struct is_optional : std::false_type {};
template <typename T>
struct is_optional<std::optional<T>> : std::true_type {};
template <typename T>
struct is_quantity : std::false_type {};
template <int T, int B, int F, int D>
struct is_quantity<Quantity<T, B, F, D>> : std::true_type {};
}  // namespace detail

// Reads one table. The first problem is kept in the Error that all readers of a file share.
class FieldReader {
 public:
  FieldReader(const Value& table, std::string file, std::string path, std::optional<Error>* error);

  static constexpr bool kReads = true;

  template <typename T>
  void required(std::string_view key, T& out, KeyText = {}) {
    if (const Value* value = take(key)) {
      read(*value, key, out);
    } else {
      missing(key);
    }
  }
  template <typename T>
  void optional(std::string_view key, T& out, KeyText = {}) {
    if (const Value* value = take(key)) read(*value, key, out);
  }
  // Blames `key` for a value of the right type that cannot be.
  void check(bool condition, std::string_view key, std::string_view why, std::string hint = {});
  // A key that exists in the format but not in this version: refused by name.
  void refuse(std::string_view key, std::string_view why, std::string hint = {});
  bool has(std::string_view key) const { return table_.find(key) != nullptr; }
  bool ok() const { return !*error_; }
  const std::string& file() const { return file_; }
  void finish();  // every key must have been taken

 private:
  const Value* take(std::string_view key);
  void missing(std::string_view key);
  void wrong(const Value& value, std::string_view key, std::string why, std::string hint = {});
  void wrong_kind(const Value& value, std::string_view key, const char* wanted);
  std::string path_to(std::string_view key) const;

  void read(const Value& value, std::string_view key, bool& out);
  void read(const Value& value, std::string_view key, double& out);
  void read(const Value& value, std::string_view key, std::string& out);
  void read(const Value& value, std::string_view, Value& out) { out = value; }
  void read_integer(const Value& value, std::string_view key, int64_t min, int64_t max,
                    int64_t& out);
  void read_quantity(const Value& value, std::string_view key, const UnitTable& table, double& out);

  template <typename T>
  void read(const Value& value, std::string_view key, T& out) {
    if constexpr (std::is_enum_v<T>) {
      const std::string* text = value.get<std::string>();
      if (!text) return wrong_kind(value, key, "a text");
      if (auto found = from_name<T>(*text)) {
        out = *found;
      } else {
        std::vector<std::string> names;
        for (const auto& entry : enum_names(T{})) names.emplace_back(entry.name);
        wrong(value, key, "is not one of the known names", one_of(*text, names));
      }
    } else if constexpr (std::is_integral_v<T>) {
      int64_t wide = 0;
      constexpr int64_t max = sizeof(T) == 8 ? INT64_MAX : std::numeric_limits<T>::max();
      constexpr int64_t min = std::is_unsigned_v<T> ? 0 : std::numeric_limits<T>::min();
      read_integer(value, key, min, max, wide);
      if (ok()) out = static_cast<T>(wide);
    } else if constexpr (detail::is_quantity<T>::value) {
      read_quantity(value, key, unit_table<T>(), out.value);
    } else if constexpr (detail::is_optional<T>::value) {
      out.emplace();
      read(value, key, *out);
    } else if constexpr (detail::is_vector<T>::value) {
      const Value::Array* array = value.get<Value::Array>();
      if (!array) return wrong_kind(value, key, "a list");
      out.clear();
      for (size_t i = 0; i < array->size() && ok(); ++i) {
        out.emplace_back();
        read((*array)[i], fmt::format("{}[{}]", key, i), out.back());
      }
    } else {
      if (!value.get<Value::Table>()) return wrong_kind(value, key, "a table");
      FieldReader inner(value, file_, path_to(key), error_);
      describe(inner, out);
      inner.finish();
    }
  }

  const Value& table_;
  std::string file_;
  std::string path_;
  std::vector<std::string> known_;  // every key that was asked for
  std::optional<Error>* error_;
};

class FieldWriter {
 public:
  static constexpr bool kReads = false;

  template <typename T>
  void required(std::string_view key, T& in, KeyText = {}) {
    const auto same = [&](const auto& entry) { return entry.first == key; };
    CHECK(std::none_of(table_.begin(), table_.end(), same), "\"{}\" is written twice", key);
    table_.emplace_back(key, write(in));
  }
  template <typename T>
  void optional(std::string_view key, T& in, KeyText = {}) {
    if constexpr (detail::is_optional<T>::value) {
      if (in) required(key, *in);
    } else if constexpr (detail::is_vector<T>::value) {
      if (!in.empty()) required(key, in);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!in.empty()) required(key, in);
    } else {
      required(key, in);
    }
  }
  void check(bool, std::string_view, std::string_view, std::string = {}) {}
  void refuse(std::string_view, std::string_view, std::string = {}) {}
  bool has(std::string_view) const { return true; }
  bool ok() const { return true; }
  Value take() { return Value(std::move(table_)); }

 private:
  template <typename T>
  static Value write(T& in) {
    if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, double> ||
                  std::is_same_v<T, std::string> || std::is_same_v<T, Value>) {
      return Value(in);
    } else if constexpr (std::is_enum_v<T>) {
      CHECK(from_name<T>(to_name(in)) == in, "value {} has no name to be written by",
            static_cast<int64_t>(in));
      return Value(std::string(to_name(in)));
    } else if constexpr (std::is_integral_v<T>) {
      return Value(static_cast<int64_t>(in));
    } else if constexpr (detail::is_quantity<T>::value) {
      return Value(format(in));
    } else if constexpr (detail::is_vector<T>::value) {
      Value::Array array;
      for (auto& item : in) array.push_back(write(item));
      return Value(std::move(array));
    } else {
      FieldWriter inner;
      describe(inner, in);
      return inner.take();
    }
  }

  Value::Table table_;
};

// A described struct from a table, or the first problem with its place. `path` is the table's own
// path within the file, for messages.
template <typename T>
Result<T> read_fields(const Value& table, const std::string& file, const std::string& path = {}) {
  std::optional<Error> error;
  T out{};
  if (!table.get<Value::Table>()) {
    return unusable(fmt::format("{}: {}: wanted a table, found {}", file,
                                path.empty() ? "the file" : path, table.kind()));
  }
  FieldReader reader(table, file, path, &error);
  describe(reader, out);
  reader.finish();
  if (error) return fail(std::move(*error));
  return out;
}

template <typename T>
Value write_fields(const T& in) {
  FieldWriter writer;
  describe(writer, const_cast<T&>(in));  // describe() takes a reference for the reader's sake
  return writer.take();
}

}  // namespace tombolo
