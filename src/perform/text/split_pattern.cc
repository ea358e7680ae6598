#include "perform/text/split_pattern.h"

#include <oniguruma.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/check.h"

namespace tombolo::text {
namespace {

// Patterns of tokenizers need a few steps for each character; what needs more than this at one
// place would not come to an end.
constexpr unsigned long kStepsMax = 10'000'000;
constexpr size_t kPatternMax = 10'000;  // bytes

const OnigUChar* onig_bytes(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.empty() ? "" : text.data());
}

// `about` is what compiling says of the pattern's place; of matching there is none.
std::string onig_text(int code, OnigErrorInfo* about = nullptr) {
  std::array<OnigUChar, ONIG_MAX_ERROR_MESSAGE_LEN> text{};
  const int size = about ? onig_error_code_to_str(text.data(), code, about)
                         : onig_error_code_to_str(text.data(), code);
  return {reinterpret_cast<const char*>(text.data()), static_cast<size_t>(size)};
}

void initialise_once() {
  static const int done = [] {
    OnigEncoding utf8 = ONIG_ENCODING_UTF8;
    onig_set_retry_limit_in_match(kStepsMax);
    onig_set_retry_limit_in_search(kStepsMax);
    return onig_initialize(&utf8, 1);
  }();
  CHECK(done == ONIG_NORMAL, "Oniguruma cannot be initialised: {}", onig_text(done));
}

bool continues_a_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

struct SplitPattern::Compiled {
  regex_t* code = nullptr;
  OnigRegion* found = onig_region_new();
  ~Compiled() {
    if (found) onig_region_free(found, /*self too*/ 1);
    if (code) onig_free(code);
  }
};

SplitPattern::SplitPattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;
SplitPattern::~SplitPattern() = default;

Result<SplitPattern> SplitPattern::compile(const std::string& pattern, bool literal) {
  if (pattern.empty() || pattern.size() > kPatternMax) {
    return unusable(
        fmt::format("a pattern of {} bytes: wanted 1 to {}", pattern.size(), kPatternMax));
  }
  initialise_once();
  auto compiled = std::make_unique<Compiled>();
  if (!compiled->found) return failed("out of memory for a pattern");
  const OnigUChar* bytes = onig_bytes(pattern);
  OnigErrorInfo about{};
  const int made =
      onig_new(&compiled->code, bytes, bytes + pattern.size(), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
               literal ? ONIG_SYNTAX_ASIS : ONIG_SYNTAX_DEFAULT, &about);
  if (made != ONIG_NORMAL) {
    return unusable(fmt::format("the pattern \"{}\" is no regular expression: {}", pattern,
                                onig_text(made, &about)),
                    "a pattern in Oniguruma's syntax, which tokenizer.json is written in");
  }
  return SplitPattern(std::move(compiled));
}

Status SplitPattern::split(std::string_view text, const Piece& piece) const {
  size_t done = 0;                // what was handed out
  size_t start = 0;               // where the next match may begin
  std::optional<size_t> matched;  // where the last one ended
  while (start < text.size()) {
    const OnigUChar *bytes = onig_bytes(text), *all = bytes + text.size();
    OnigRegion& region = *compiled_->found;
    const int found =
        onig_search(compiled_->code, bytes, all, bytes + start, all, &region, ONIG_OPTION_NONE);
    if (found == ONIG_MISMATCH) break;
    if (found < 0) {
      return unusable(fmt::format("matching a pattern from byte {} of {} on: {}", start,
                                  text.size(), onig_text(found)));
    }
    // The region belongs to the pattern, which `piece` may use again.
    const auto begin = static_cast<size_t>(region.beg[0]);
    const auto end = static_cast<size_t>(region.end[0]);
    const bool again = end == begin && matched && *matched == end;
    if (again || end < begin || begin < done) {  // nothing, behind a match (or \K moved its begin)
      do ++start;
      while (start < text.size() && continues_a_character(text[start]));
      continue;
    }
    if (begin > done) TRY(piece(text.substr(done, begin - done), false));
    if (end > begin) TRY(piece(text.substr(begin, end - begin), true));
    done = start = end;
    matched = end;
  }
  return done < text.size() ? piece(text.substr(done), false) : Status{};
}

}  // namespace tombolo::text
