#include "base/toml_hazards.h"

#include <algorithm>
#include <string>

#include "base/file.h"

namespace tombolo {
namespace {

class HazardScan {
 public:
  HazardScan(std::string_view text, const std::string& name, int dots_max)
      : text_(text), name_(name), dots_max_(dots_max) {}

  Status check() {
    at_ = text_.size() - without_byte_order_mark(text_).size();
    while (at_ < text_.size()) {
      TRY(next());
      line_ += text_[at_] == '\n';
      ++at_;
    }
    return {};
  }

 private:
  enum class Where {
    kBetween,    // keys, numbers, brackets. -> kComment at #, kString at a quote
    kComment,    // -> kBetween at the end of the line
    kString,     // -> kBetween at its closing quote, or where a line ends that should not
    kContinued,  // white space behind a \ in a string of """. -> kString
  };

  Status next() {
    const char c = text_[at_];
    switch (where_) {
      case Where::kBetween:
        return between(c);
      case Where::kComment:
        if (c == '\n') begin_line();
        return {};
      case Where::kContinued:
        if (is_beyond_ascii(c)) {
          return refusal("a character beyond ASCII follows a \\, or the white space behind it",
                         "the text on one line, and \\\\ for a \\ itself");
        }
        if (is_blank(c)) return {};
        where_ = Where::kString;
        [[fallthrough]];
      case Where::kString:
        string(c);
        return {};
    }
    return {};
  }

  Status between(char c) {
    if (is_beyond_ascii(c)) {
      return refusal("a character beyond ASCII outside quotes", "straight quotes around the text");
    }
    if (c == '.' && ++dots_ > dots_max_) {
      return refusal("nested too deeply",
                     fmt::format("at most {} dots outside quotes on one line", dots_max_));
    }
    if (is_inside_bare_value(c)) return {};
    follow(c);
    if (c == '\n') begin_line();
    if (c == '#') where_ = Where::kComment;
    // Behind anything else a quote opens nothing: toml++ takes it for a part of the value.
    if ((c == '"' || c == '\'') && may_open_string()) {
      where_ = Where::kString;
      quote_ = c;
      many_lines_ = quotes() >= 3;
      if (many_lines_) at_ += 2;
    }
    return {};
  }

  void string(char c) {
    if (c == '\n' && !many_lines_) begin_line();  // toml++ will say where it should have ended
    if (c == '\\' && quote_ == '"') return escape();
    if (c != quote_) return;
    const size_t found = quotes();
    if (!many_lines_ || found >= 3) where_ = Where::kBetween;
    if (many_lines_) at_ += std::min<size_t>(found, 5) - 1;  // two may stand before the last three
  }

  void escape() {
    const char after = at_ + 1 < text_.size() ? text_[at_ + 1] : '\n';
    if (many_lines_ && (is_blank(after) || is_beyond_ascii(after))) {
      where_ = Where::kContinued;
    } else if (after != '\n') {
      ++at_;
    }
  }

  void begin_line() {
    where_ = Where::kBetween;
    dots_ = 0;
    in_bare_ = false;
    if (open_.empty()) in_value_ = false;
  }

  // How many times the same quote stands here in a row.
  size_t quotes() const {
    return std::min(text_.find_first_not_of(quote_, at_), text_.size()) - at_;
  }
  // Numbers, dates and what else toml++ takes for one: until white space or the end of a value. Quotes,
  // brackets and equals signs in it mean nothing.
  bool is_inside_bare_value(char c) {
    if (!in_value_) return false;
    constexpr std::string_view kEnds = ",]}#";
    constexpr std::string_view kOpens = "[{\"'";
    const bool ends = is_blank(c) || kEnds.find(c) != std::string_view::npos;
    in_bare_ = !ends && (in_bare_ || kOpens.find(c) == std::string_view::npos);
    return in_bare_;
  }

  // Where TOML has strings; behind a dot in keys alone.
  bool may_open_string() const {
    constexpr std::string_view kBefore = " \t\r\n=,[{";
    if (at_ == 0) return true;
    const char before = text_[at_ - 1];
    return kBefore.find(before) != std::string_view::npos || (before == '.' && !in_value_);
  }

  // Whether a value stands here, or a key: a table in braces has keys, an array what it is in.
  void follow(char c) {
    if (c == '{' || c == '[') open_ += c;
    if ((c == '}' || c == ']') && !open_.empty()) open_.pop_back();
    const bool in_braces = !open_.empty() && open_.back() == '{';
    if (c == '=' || c == '}') in_value_ = true;
    if (c == '{' || (c == ',' && in_braces)) in_value_ = false;
  }
  static bool is_beyond_ascii(char c) { return static_cast<unsigned char>(c) >= 0x80; }
  static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  tl::unexpected<Error> refusal(std::string_view what, std::string_view remedy) const {
    return unusable(fmt::format("{}:{}: {}", name_, line_, what), std::string(remedy));
  }

  const std::string_view text_;
  const std::string& name_;
  const int dots_max_;
  size_t at_ = 0;
  int line_ = 1;
  int dots_ = 0;  // of this line, outside quotes
  Where where_ = Where::kBetween;
  bool in_value_ = false;    // in kBetween
  bool in_bare_ = false;     // likewise: a value without quotes
  std::string open_;         // brackets and braces around it
  char quote_ = 0;           // in kString, kContinued
  bool many_lines_ = false;  // likewise: it opened with three quotes
};

}  // namespace

Status check_toml_hazards(std::string_view text, const std::string& name, int dots_max) {
  return HazardScan(text, name, dots_max).check();
}

}  // namespace tombolo
