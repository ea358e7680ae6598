#include "perform/text/oniguruma.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tombolo::text {
namespace {

constexpr size_t kClassesMax = 50;  // in one another
constexpr size_t kPosixNameMax = 20;
constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";

// Members of a class, as they stand between brackets: Oniguruma's, by Unicode.
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Outside of brackets Oniguruma looks characters of Latin-1 up in a table that has \u00b2, \u00bd
// and their like, too.
constexpr std::string_view kWordAlone =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr std::string_view kSpace = R"(\x09-\x0d\x{85}\p{Z})";
constexpr std::string_view kHexDigit = "0-9A-Fa-f";

// POSIX brackets, and properties of the same names.
struct PosixClass {
  std::string_view name, members;
};
constexpr auto kPosix = std::to_array<PosixClass>({
    {"alnum", R"(\p{Alphabetic}\p{Nd})"},
    {"alpha", R"(\p{Alphabetic})"},
    {"ascii", R"(\x00-\x7f)"},
    {"blank", R"(\x09\p{Zs})"},
    {"cntrl", R"(\p{Cc})"},
    {"digit", R"(\p{Nd})"},
    {"graph", R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co})"},
    {"lower", R"(\p{Lowercase})"},
    {"print", R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co}\p{Zs})"},
    {"punct", R"(\p{P}\p{S})"},
    {"space", kSpace},
    {"upper", R"(\p{Uppercase})"},
    {"word", kWord},
    {"xdigit", kHexDigit},
});

std::string_view posix_members(std::string_view name) {
  const auto found =
      std::ranges::find_if(kPosix, [&](const PosixClass& each) { return each.name == name; });
  return found == kPosix.end() ? "" : found->members;
}

// Long names of general categories, as Oniguruma compares them: without spaces, _ and -.
constexpr auto kCategories = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"unassigned", "Cn"},
    {"privateuse", "Co"},
    {"surrogate", "Cs"},
    {"letter", "L"},
    {"lc", "L&"},
    {"casedletter", "L&"},
    {"lowercaseletter", "Ll"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"titlecaseletter", "Lt"},
    {"uppercaseletter", "Lu"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"nonspacingmark", "Mn"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"closepunctuation", "Pe"},
    {"finalpunctuation", "Pf"},
    {"initialpunctuation", "Pi"},
    {"otherpunctuation", "Po"},
    {"openpunctuation", "Ps"},
    {"symbol", "S"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"mathsymbol", "Sm"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"spaceseparator", "Zs"},
});

bool pcre2_knows(const std::string& pattern) {
  int error = 0;
  size_t at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

// What stands for a property between brackets; nothing where neither program has it, or only one.
std::optional<std::string> property_members(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    const bool upper = c >= 'A' && c <= 'Z';
    const bool word = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!word) return std::nullopt;
    plain += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (plain.empty()) return std::nullopt;
  if (plain == "any") return R"(\x{0}-\x{10ffff})";
  if (plain == "assigned") return R"(\P{Cn})";
  if (const std::string_view members = posix_members(plain); !members.empty())
    return std::string(members);
  const auto category =
      std::ranges::find_if(kCategories, [&](const auto& each) { return each.first == plain; });
  if (category != kCategories.end()) return fmt::format(R"(\p{{{}}})", category->second);
  if (plain.size() <= 2) {  // "lu": PCRE2 wants "Lu"
    plain[0] = static_cast<char>(plain[0] - 'a' + 'A');
    const std::string found = fmt::format(R"(\p{{{}}})", plain);
    return pcre2_knows(found) ? std::optional(found) : std::nullopt;
  }
  // A script means that, not where else its characters are used; else a yes or no, as Emoji.
  for (const std::string_view kind : {"sc:", ""}) {
    const std::string found = fmt::format(R"(\p{{{}{}}})", kind, plain);
    if (pcre2_knows(found)) return found;
  }
  return std::nullopt;
}

// What matches one character: members between brackets, and other expressions of one character each.
struct CharacterSet {
  std::string members;
  std::vector<std::string> others;

  // As one expression.
  std::string text(bool negated) const {
    if (others.empty())
      return members.empty() ? (negated ? "(?s:.)" : "(?!)")
                             : fmt::format("[{}{}]", negated ? "^" : "", members);
    std::string all = members.empty() ? "" : fmt::format("[{}]|", members);
    for (const std::string& each : others) all += each + "|";
    all.pop_back();
    return negated ? fmt::format("(?:(?!{})(?s:.))", all) : fmt::format("(?:{})", all);
  }
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class Translation {
 public:
  explicit Translation(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> whole() {
    while (at_ < pattern_.size()) TRY(next());
    out_.append(implied_, ')');
    return std::move(out_);
  }

 private:
  char here(size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0';
  }
  std::string_view rest() const { return pattern_.substr(at_); }
  bool take(std::string_view text) {
    if (!rest().starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  tl::unexpected<Error> refusal(std::string_view construct, size_t at) const {
    return unusable(fmt::format("the pattern \"{}\" has {} at byte {}, which is not known here",
                                pattern_, construct, at),
                    "a pattern without it");
  }

  // What may be repeated: it begins here in what was written.
  void atom(std::string_view text) {
    last_ = out_.size();
    out_ += text;
  }
  // One character, which may have several bytes.
  std::string_view character() {
    size_t size = 1;
    while (at_ + size < pattern_.size() &&
           (static_cast<unsigned char>(pattern_[at_ + size]) & 0xc0) == 0x80)
      ++size;
    const std::string_view out = pattern_.substr(at_, size);
    at_ += size;
    return out;
  }

  Status next() {
    switch (here()) {
      case '\\':
        return escape();
      case '[': {
        const size_t begin = at_++;
        const std::string set = TRY(bracket(begin, 0));
        atom(set);
        return {};
      }
      case '(':
        return open();
      case ')':
        ++at_;
        close();
        return {};
      case '^':
        ++at_;
        atom("(?m:^)");
        return {};
      case '$':
        ++at_;
        atom("(?m:$)");
        return {};
      case '|':
        ++at_;
        out_ += '|';
        last_.reset();
        return {};
      case '*':
      case '+':
      case '?':
      case '{':
        return repeat();
      default:
        atom(character());
        return {};
    }
  }

  void close() {
    if (!opened_.empty()) {
      out_.append(std::exchange(implied_, opened_.back().implied), ')');
      last_ = opened_.back().begin;
      opened_.pop_back();
    }
    out_ += ')';
  }

  // "(", "(?:", "(?=" and their like up to where their content begins.
  Status open() {
    const size_t begin = at_;
    if (take("(?#")) {
      const size_t end = rest().find(')');
      at_ = end == std::string_view::npos ? pattern_.size() : at_ + end + 1;
      return {};
    }
    if (rest().starts_with("(*")) return refusal("a callout (*...)", begin);
    if (take("(?")) {
      at_ -= 2;
      if (std::string_view("im-").find(here(2)) != std::string_view::npos && here(2) != '\0')
        return options(begin);
    }
    opened_.push_back({out_.size(), std::exchange(implied_, 0)});
    last_.reset();
    for (const std::string_view kind : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (!take(kind)) continue;
      out_ += kind;
      return {};
    }
    if (take("(?<")) return named_group(begin);
    if (take("(?")) return refusal(fmt::format("\"(?{}\"", character_at(begin + 2)), begin);
    at_ += 1;
    out_ += '(';
    return {};
  }

  Status named_group(size_t begin) {
    const size_t end = rest().find('>');
    if (end == std::string_view::npos) return refusal("a group without a name's end", begin);
    out_ += fmt::format("(?<{}>", rest().substr(0, end));
    at_ += end + 1;
    return {};
  }

  // Ruby's m is what others call s. "(?i)" goes on to the end of the group, over its alternatives.
  Status options(size_t begin) {
    std::string words;
    at_ += 2;
    while (here() == 'i' || here() == 'm' || here() == '-') {
      words += here() == 'm' ? 's' : here();
      ++at_;
    }
    if (here() != ':' && here() != ')')
      return refusal(fmt::format("the option \"{}\"", character_at(at_)), begin);
    if (here() == ':') {
      opened_.push_back({out_.size(), std::exchange(implied_, 0)});
    } else {
      ++implied_;
    }
    out_ += fmt::format("(?{}:", words);
    last_.reset();
    ++at_;
    return {};
  }

  std::string_view character_at(size_t at) const {
    size_t size = at < pattern_.size() ? 1 : 0;
    while (at + size < pattern_.size() &&
           (static_cast<unsigned char>(pattern_[at + size]) & 0xc0) == 0x80)
      ++size;
    return pattern_.substr(std::min(at, pattern_.size()), size);
  }

  // {n}, {n,}, {,m}, {n,m}; nothing where a brace is just that.
  std::optional<std::string> interval() {
    size_t end = at_ + 1;
    const size_t low = end;
    while (end < pattern_.size() && is_digit(pattern_[end])) ++end;
    std::string text(pattern_.substr(low, end - low));
    fixed_ = !text.empty();
    if (end < pattern_.size() && pattern_[end] == ',') {
      const size_t high = ++end;
      while (end < pattern_.size() && is_digit(pattern_[end])) ++end;
      if (text.empty() && end == high) return std::nullopt;
      text = (text.empty() ? "0" : text) + "," + std::string(pattern_.substr(high, end - high));
      fixed_ = false;
    }
    if (text.empty() || end >= pattern_.size() || pattern_[end] != '}') return std::nullopt;
    at_ = end + 1;
    return "{" + text + "}";
  }

  Status repeat() {
    const bool brace = here() == '{';
    std::string how(1, here());
    if (brace) {
      const auto found = interval();
      if (!found) {
        ++at_;
        atom("\\{");
        repeated_until_ = 0;
        return {};
      }
      how = *found;
    } else {
      ++at_;
    }
    if (!last_) {
      out_ += how;  // nothing to repeat: PCRE2 says so
      return {};
    }
    // What is repeated already is repeated as a whole.
    if (repeated_until_ == out_.size()) {
      out_.insert(*last_, "(?:");
      out_ += ')';
    }
    out_ += how;
    const bool lazy_is_perhaps = brace && fixed_;  // {n}? is {n} or nothing
    const bool takes_sign =
        brace ? (here() == '?' && !lazy_is_perhaps) : here() == '?' || here() == '+';
    if (takes_sign) {
      out_ += here();
      ++at_;
    }
    repeated_until_ = out_.size();
    return {};
  }

  // --- escapes -----------------------------------------------------------------------------------

  // Outside of brackets.
  Status escape() {
    const size_t begin = at_;
    const char c = here(1);
    const std::string word = fmt::format("[{}]", kWordAlone);
    switch (c) {
      case 'b':
        at_ += 2;
        atom(fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word));
        return {};
      case 'B':
        at_ += 2;
        atom(fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", word));
        return {};
      case 'O':
        at_ += 2;
        atom("(?s:.)");
        return {};
      case 'A':
      case 'z':
      case 'Z':
      case 'G':
      case 'R':
      case 'N':
      case 'K':
        at_ += 2;
        atom(pattern_.substr(begin, 2));
        return {};
      default:
        break;
    }
    if (c == 'k' && here(2) == '<') {
      const size_t end = rest().find('>');
      if (end == std::string_view::npos) return refusal("\"\\k<\"", begin);
      atom(rest().substr(0, end + 1));
      at_ += end + 1;
      return {};
    }
    if (c >= '1' && c <= '9') {  // a group
      size_t end = at_ + 2;
      while (end < pattern_.size() && is_digit(pattern_[end])) ++end;
      atom(fmt::format("\\g{{{}}}", pattern_.substr(at_ + 1, end - at_ - 1)));
      at_ = end;
      return {};
    }
    if (c == 'w' || c == 'W') {
      at_ += 2;
      atom(c == 'w' ? word : fmt::format("[^{}]", kWordAlone));
      return {};
    }
    CharacterSet set;
    TRY(set_of_escape(set));
    if (set.members == kWord) set.members = kWordAlone;  // \p{Word}
    atom(set.members.size() <= 2 && set.others.empty() ? set.members : set.text(false));
    return {};
  }

  // What means the same in brackets and outside of them.
  Status set_of_escape(CharacterSet& out) {
    const size_t begin = at_;
    const char c = here(1);
    const auto members = [&](std::string_view text) {
      at_ += 2;
      out.members += text;
      return Status{};
    };
    const auto all_but = [&](std::string_view text) {
      at_ += 2;
      out.others.push_back(fmt::format("[^{}]", text));
      return Status{};
    };
    switch (c) {
      case 'w':
        return members(kWord);
      case 'W':
        return all_but(kWord);
      case 's':
        return members(kSpace);
      case 'S':
        return all_but(kSpace);
      case 'h':
        return members(kHexDigit);
      case 'H':
        return all_but(kHexDigit);
      case 'd':
        return members(R"(\p{Nd})");
      case 'D':
        return members(R"(\P{Nd})");
      case 'p':
      case 'P':
        return property(out);
      default:
        break;
    }
    out.members += TRY(single(begin));
    return {};
  }

  Status property(CharacterSet& out) {
    const size_t begin = at_;
    bool negated = here(1) == 'P';
    at_ += 2;
    std::string_view name = rest().substr(0, 1);
    if (here() == '{') {
      const size_t end = rest().find('}');
      if (end == std::string_view::npos) return refusal("a property without its end", begin);
      name = rest().substr(1, end - 1);
      at_ += end + 1;
    } else {
      at_ += name.size();
    }
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    const auto found = property_members(name);
    if (!found) return refusal(fmt::format("the property \"{}\"", name), begin);
    if (negated) {
      out.others.push_back(fmt::format("[^{}]", *found));
    } else {
      out.members += *found;
    }
    return {};
  }

  // One character that an escape stands for, as it may stand in brackets and outside.
  Result<std::string> single(size_t begin) {
    const char c = here(1);
    if (c == '\0') return refusal("\"\\\"", begin);
    if (c == 'x') return hexadecimal(begin);
    if (c == 'u') {
      const std::string_view digits = pattern_.substr(std::min(at_ + 2, pattern_.size()), 4);
      if (digits.size() < 4 || digits.find_first_not_of(kHexDigits) != std::string_view::npos)
        return refusal("\"\\u\"", begin);
      at_ += 2 + digits.size();
      return fmt::format("\\x{{{}}}", digits);
    }
    if (c == '0') {
      size_t end = at_ + 2;
      while (end < pattern_.size() && end < at_ + 4 && pattern_[end] >= '0' && pattern_[end] <= '7')
        ++end;
      const std::string out = fmt::format("\\o{{{}}}", pattern_.substr(at_ + 1, end - at_ - 1));
      at_ = end;
      return out;
    }
    constexpr auto kControls = std::to_array<std::pair<char, std::string_view>>({{'t', "\\t"},
                                                                                 {'n', "\\n"},
                                                                                 {'r', "\\r"},
                                                                                 {'f', "\\f"},
                                                                                 {'a', "\\a"},
                                                                                 {'e', "\\e"},
                                                                                 {'v', "\\x0b"}});
    const auto control =
        std::ranges::find_if(kControls, [&](const auto& each) { return each.first == c; });
    if (control != kControls.end()) {
      at_ += 2;
      return std::string(control->second);
    }
    if (is_letter(c) || is_digit(c)) return refusal(fmt::format("\"\\{}\"", c), begin);
    ++at_;
    const std::string_view literal = character();
    return (literal.size() == 1 ? "\\" : "") + std::string(literal);
  }

  Result<std::string> hexadecimal(size_t begin) {
    at_ += 2;
    if (here() != '{') {
      size_t size = 0;
      while (size < 2 && here(size) != '\0' && kHexDigits.find(here(size)) != kHexDigits.npos)
        ++size;
      const std::string out = fmt::format("\\x{{{}}}", size == 0 ? "0" : rest().substr(0, size));
      at_ += size;
      return out;
    }
    const size_t end = rest().find('}');
    if (end == std::string_view::npos) return refusal("\"\\x{\"", begin);
    const std::string out = fmt::format("\\x{}", rest().substr(0, end + 1));
    at_ += end + 1;
    return out;
  }

  // --- classes -----------------------------------------------------------------------------------

  // Behind the "[", to behind its "]".
  Result<std::string> bracket(size_t begin, size_t depth) {
    bool negated = false;
    const CharacterSet set = TRY(class_of(begin, depth, negated));
    return set.text(negated);
  }

  Result<CharacterSet> class_of(size_t begin, size_t depth, bool& negated) {
    if (depth > kClassesMax) return refusal("too many classes in one another", begin);
    negated = take("^");
    CharacterSet set;
    std::vector<std::string> intersected;  // what stands before each &&
    bool first = true;
    for (;; first = false) {
      if (at_ >= pattern_.size()) return refusal("a class without its end", begin);
      if (here() == ']' && !first) break;
      if (take("&&")) {
        intersected.push_back(std::exchange(set, {}).text(false));
        continue;
      }
      TRY(member(set, depth));
    }
    ++at_;
    if (intersected.empty()) return set;
    std::string all;
    for (const std::string& each : intersected) all += fmt::format("(?={})", each);
    CharacterSet out;
    out.others.push_back(fmt::format("(?:{}{})", all, set.text(false)));
    return out;
  }

  // A character, a range, an escape, [:name:] or a class.
  Status member(CharacterSet& set, size_t depth) {
    const size_t begin = at_;
    if (rest().starts_with("[:")) {
      const size_t end = rest().find(":]");
      if (end != std::string_view::npos && end <= kPosixNameMax) {
        const std::string_view name = rest().substr(2, end - 2);
        if (!posix(set, name)) return refusal(fmt::format("the class \"[:{}:]\"", name), begin);
        at_ = begin + end + 2;
        return no_range(begin);
      }
    }
    if (take("[")) {
      bool negated = false;
      CharacterSet inner = TRY(class_of(begin, depth + 1, negated));
      if (negated) {
        set.others.push_back(inner.text(true));
      } else {
        set.members += inner.members;
        std::ranges::move(inner.others, std::back_inserter(set.others));
      }
      return {};
    }
    const char c = here(1);
    const bool is_set = here() == '\\' &&
                        std::string_view("wWsShHdDpP").find(c) != std::string_view::npos &&
                        c != '\0';
    if (is_set) {
      TRY(set_of_escape(set));
      return no_range(begin);
    }
    const std::string low = TRY(one());
    // A "-" before "]" or "&&" is itself.
    const bool range = here() == '-' && here(1) != ']' && here(1) != '\0' &&
                       !pattern_.substr(at_ + 1).starts_with("&&");
    if (range && (here(1) == '[' || is_set_escape(at_ + 1)))
      return refusal("a range to a class", begin);
    if (!range) {
      set.members += low;
      return {};
    }
    ++at_;
    set.members += low + "-" + TRY(one());
    return {};
  }

  // A class begins no range.
  Status no_range(size_t begin) const {
    if (here() == '-' && here(1) != ']') return refusal("a range from a class", begin);
    return {};
  }

  bool is_set_escape(size_t at) const {
    return at + 1 < pattern_.size() && pattern_[at] == '\\' &&
           std::string_view("wWsShHdDpP").find(pattern_[at + 1]) != std::string_view::npos;
  }

  // One character in brackets.
  Result<std::string> one() {
    if (rest().starts_with("\\b")) {
      at_ += 2;
      return std::string("\\x08");
    }
    if (here() == '\\') return single(at_);
    const std::string_view literal = character();
    const bool plain = literal.size() > 1 || is_letter(literal[0]) || is_digit(literal[0]) ||
                       static_cast<unsigned char>(literal[0]) <= ' ';
    return (plain ? "" : "\\") + std::string(literal);
  }

  static bool posix(CharacterSet& set, std::string_view name) {
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    const std::string_view members = posix_members(name);
    if (members.empty()) return false;
    if (negated) {
      set.others.push_back(fmt::format("[^{}]", members));
    } else {
      set.members += members;
    }
    return true;
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
  std::optional<size_t> last_;  // where what may be repeated begins in out_
  struct Group {
    size_t begin;    // in out_
    size_t implied;  // of the group around it
  };
  std::vector<Group> opened_;
  size_t implied_ = 0;         // groups that "(?i)" opened in this one, which end with it
  size_t repeated_until_ = 0;  // out_ was so long when something was repeated
  bool fixed_ = false;         // the interval was {n}
};

}  // namespace

Result<std::string> oniguruma_to_pcre2(const std::string& pattern) {
  return Translation(pattern).whole();
}

}  // namespace tombolo::text
