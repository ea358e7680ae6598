#include "base/json.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace tombolo {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDepthLimit = 64;

// Characters for the parser, counted by lines as it reads them. The parser copies what it reads
// from, so the count lives outside.
class CountedText {
 public:
  struct Place {
    int line = 1;  // of the character read last: the parser reads one beyond a number
    bool ends_line = false;
  };
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountedText(const char* at, Place* place) : at_(at), place_(place) {}
  const char& operator*() const { return *at_; }
  CountedText& operator++() {
    place_->line += place_->ends_line ? 1 : 0;
    place_->ends_line = *at_++ == '\n';
    return *this;
  }
  bool operator==(const CountedText& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  Place* place_;
};

// Builds the Value while the parser runs, so that hostile nesting is refused before it costs a
// stack.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(const CountedText::Place& place, bool counts_lines)
      : place_(place), counts_lines_(counts_lines) {}
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
    return refuse(fmt::format("not JSON at byte {}", at));
  }

  const std::string& problem() const { return problem_; }
  Value take() { return std::move(root_); }

 private:
  int line() const { return counts_lines_ ? place_.line : 0; }
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
    container.line = line();
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
    return put(std::move(done));
  }
  bool add(Value value) {
    value.line = line();
    return put(std::move(value));
  }
  bool put(Value value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* array = open_.back().get<Value::Array>()) {
      array->push_back(std::move(value));
    } else {
      open_.back().get<Value::Table>()->emplace_back(std::move(keys_.back()), std::move(value));
    }
    return true;
  }

  const CountedText::Place& place_;
  bool counts_lines_;
  Value root_;
  std::vector<Value> open_;
  std::vector<std::string> keys_;
  std::vector<std::unordered_set<std::string>> seen_;  // keys, of large tables
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
  CountedText::Place place{std::max(line, 1)};
  Builder builder(place, /*counts_lines*/ line > 0);
  if (!Json::sax_parse(CountedText(text.data(), &place),
                       CountedText(text.data() + text.size(), &place), &builder)) {
    const int at = line > 0 ? place.line : 0;
    const std::string where = at > 0 ? fmt::format("{}:{}", name, at) : name;
    return fail({ErrorCode::kUnusable,
                 fmt::format("{}: {}", where, builder.problem()),
                 {},
                 {},
                 {.file = name, .line = at}});
  }
  return builder.take();
}

std::string to_json(const Value& value, int indent) {
  return convert(value).dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tombolo
