#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace tombolo {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDepthLimit = 64;

// Builds the Value while the parser runs, so that hostile nesting is refused before it costs a
// stack.
class Builder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return add({}); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(int64_t v) override { return add(v); }
  bool number_unsigned(uint64_t v) override {
    if (v > static_cast<uint64_t>(INT64_MAX)) return refuse_number(fmt::format("{}", v));
    return add(static_cast<int64_t>(v));
  }
  bool number_float(double v, const std::string& text) override {
    // Digits without a point or exponent that arrive here were too long for an integer.
    if (text.find_first_of(".eE") == std::string::npos) {
      return refuse_number(text);
    }
    return add(v);
  }
  bool string(std::string& v) override { return add(std::move(v)); }
  bool binary(Json::binary_t&) override { return refuse("binary values are not JSON"); }
  bool start_object(size_t) override { return open(Value(Value::Table{})); }
  bool start_array(size_t) override { return open(Value(Value::Array{})); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& v) override {
    if (!is_new(v)) return refuse(fmt::format("the key \"{}\" stands twice", v));
    keys_.back() = std::move(v);
    return true;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) override {
    byte_ = at;
    return refuse(fmt::format("not JSON at byte {}", at));
  }

  const std::string& problem() const { return problem_; }
  size_t byte_of_problem() const { return byte_; }  // of what is not JSON; else 0
  Value take() { return std::move(root_); }

 private:
  bool refuse(std::string why) {
    if (problem_.empty()) problem_ = std::move(why);
    return false;
  }
  // Named by the innermost key around it.
  bool refuse_number(const std::string& text) {
    const auto named = std::find_if(keys_.rbegin(), keys_.rend(),
                                    [](const std::string& key) { return !key.empty(); });
    const std::string where = named == keys_.rend() ? "" : fmt::format("\"{}\": ", *named);
    return refuse(fmt::format("{}{} is beyond 64 bits", where, text));
  }
  // Small tables are searched; large ones, such as a vocabulary of 100,000 words, keep a set, too.
  bool is_new(const std::string& key) {
    constexpr size_t kSmall = 64;
    const Value::Table& table = *open_.back().get<Value::Table>();
    if (table.size() < kSmall) return open_.back().find(key) == nullptr;
    std::unordered_set<std::string>& seen = seen_.back();
    if (seen.empty()) {
      for (const auto& [name, value] : table) seen.insert(name);
    }
    return seen.insert(key).second;
  }
  bool open(Value container) {
    if (open_.size() >= kDepthLimit) return refuse("nested too deeply");
    open_.push_back(std::move(container));
    keys_.emplace_back();
    seen_.emplace_back();
    return true;
  }
  bool close() {
    Value done = std::move(open_.back());
    open_.pop_back();
    keys_.pop_back();
    seen_.pop_back();
    return add(std::move(done));
  }
  bool add(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* array = open_.back().get<Value::Array>()) {
      array->push_back(std::move(value));
    } else {
      open_.back().get<Value::Table>()->emplace_back(std::move(keys_.back()), std::move(value));
    }
    return true;
  }

  Value root_;
  std::vector<Value> open_;
  std::vector<std::string> keys_;
  std::vector<std::unordered_set<std::string>> seen_;  // keys, of large tables
  size_t byte_ = 0;
  std::string problem_;
};

Json convert(const Value& value) {
  if (const auto* flag = value.get<bool>()) return *flag;
  if (const auto* integer = value.get<int64_t>()) return *integer;
  if (const auto* number = value.get<double>()) return *number;
  if (const auto* text = value.get<std::string>()) return *text;
  if (const auto* array = value.get<Value::Array>()) {
    Json out = Json::array();
    for (const Value& item : *array) out.push_back(convert(item));
    return out;
  }
  if (const auto* table = value.get<Value::Table>()) {
    Json out = Json::object();
    // Appended without a search per key: a Table has no duplicates.
    for (const auto& [key, item] : *table) {
      out.get_ref<Json::object_t&>().emplace_back(key, convert(item));
    }
    return out;
  }
  return nullptr;
}

}  // namespace

Result<Value> parse_json(std::string_view text, const std::string& name, int line) {
  Builder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    const std::string_view before =
        text.substr(0, std::max<size_t>(builder.byte_of_problem(), 1) - 1);
    line += static_cast<int>(std::count(before.begin(), before.end(), '\n'));
    return fail({ErrorCode::kUnusable,
                 fmt::format("{}:{}: {}", name, line, builder.problem()),
                 {},
                 {},
                 {.file = name, .line = static_cast<int>(line)}});
  }
  Value value = builder.take();
  value.line = line;
  return value;
}

std::string to_json(const Value& value, int indent) {
  return convert(value).dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tombolo
