// Value: what a TOML or JSON file says, with the place where it says it.
//
// The two readers (toml.h, json.h) produce Values; fields.h turns Values into structs and back.
// Only toml.cc and json.cc see the parser libraries.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tombolo {

class Value {
 public:
  using Array = std::vector<Value>;
  using Table = std::vector<std::pair<std::string, Value>>;  // in the order of the file

  Value() = default;
  Value(bool v) : data_(v) {}
  Value(int v) : data_(int64_t{v}) {}
  Value(int64_t v) : data_(v) {}
  Value(double v) : data_(v) {}
  Value(const char* v) : data_(std::string(v)) {}
  Value(std::string v) : data_(std::move(v)) {}
  Value(Array v) : data_(std::move(v)) {}
  Value(Table v) : data_(std::move(v)) {}

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&data_);
  }
  template <typename T>
  T* get() {
    return std::get_if<T>(&data_);
  }
  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  const Value* find(std::string_view key) const;  // null where this is no table or has no such key
  void set(std::string key, Value value);  // CHECKs that this is a table; replaces or appends
  const char* kind() const;                // "a text", "a table", ... for messages

  // Equal content; where it was written does not matter.
  bool operator==(const Value& other) const { return data_ == other.data_; }

  int line = 0;  // 1 is the first line of the file; 0: unknown (made by a program)

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Table> data_;
};

}  // namespace tombolo
