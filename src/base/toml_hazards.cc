#include "base/toml_hazards.h"

#include <algorithm>

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
    if (c == '\n') begin_line();
    if (c == '#') where_ = Where::kComment;
    if (c == '"' || c == '\'') {
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
  }

  // The same quote so many times from here on.
  size_t quotes() const {
    return std::min(text_.find_first_not_of(quote_, at_), text_.size()) - at_;
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
  char quote_ = 0;           // in kString, kContinued
  bool many_lines_ = false;  // likewise: it opened with three quotes
};

}  // namespace

Status check_toml_hazards(std::string_view text, const std::string& name, int dots_max) {
  return HazardScan(text, name, dots_max).check();
}

}  // namespace tombolo
