#include "perform/text/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "perform/text/oniguruma.h"

namespace tombolo::text {
namespace {

// Patterns of tokenizers need a few steps for each character; what needs more than this at one
// place would not come to an end.
constexpr uint32_t kStepsMax = 10'000'000;
constexpr size_t kPatternMax = 10'000;  // bytes

std::string pcre2_text(int code) {
  std::array<unsigned char, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

PCRE2_SPTR pcre2_bytes(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.empty() ? "" : text.data());
}

bool continues_a_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

struct SplitPattern::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_data* found = nullptr;
  pcre2_match_context* limits = nullptr;
  pcre2_compile_context* lines = nullptr;
  ~Compiled() {
    pcre2_compile_context_free(lines);
    pcre2_match_context_free(limits);
    pcre2_match_data_free(found);
    pcre2_code_free(code);
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
  auto compiled = std::make_unique<Compiled>();
  int error = 0;
  size_t at = 0;
  const std::string known = literal ? pattern : TRY(oniguruma_to_pcre2(pattern));
  compiled->lines = pcre2_compile_context_create(nullptr);
  if (!compiled->lines) return failed("out of memory for a pattern");
  pcre2_set_newline(compiled->lines, PCRE2_NEWLINE_LF);
  const uint32_t options =
      literal ? PCRE2_UTF | PCRE2_LITERAL : PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C;
  compiled->code =
      pcre2_compile(pcre2_bytes(known), known.size(), options, &error, &at, compiled->lines);
  if (!compiled->code) {
    const std::string as = known == pattern ? "" : fmt::format(", for PCRE2 \"{}\",", known);
    return unusable(fmt::format("the pattern \"{}\"{} is no regular expression, at byte {}: {}",
                                pattern, as, at, pcre2_text(error)));
  }
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);  // where there is one; slower without
  compiled->found = pcre2_match_data_create_from_pattern(compiled->code, nullptr);
  compiled->limits = pcre2_match_context_create(nullptr);
  if (!compiled->found || !compiled->limits) return failed("out of memory for a pattern");
  pcre2_set_match_limit(compiled->limits, kStepsMax);
  return SplitPattern(std::move(compiled));
}

Status SplitPattern::split(std::string_view text, const Piece& piece) const {
  size_t done = 0;                // what was handed out
  size_t start = 0;               // where the next match may begin
  std::optional<size_t> matched;  // where the last one ended
  while (start < text.size()) {
    const int found = pcre2_match(compiled_->code, pcre2_bytes(text), text.size(), start,
                                  PCRE2_NO_UTF_CHECK, compiled_->found, compiled_->limits);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return unusable(fmt::format("matching a pattern from byte {} of {} on: {}", start,
                                  text.size(), pcre2_text(found)));
    }
    // The vector belongs to the pattern, which `piece` may use again.
    const size_t begin = pcre2_get_ovector_pointer(compiled_->found)[0];
    const size_t end = pcre2_get_ovector_pointer(compiled_->found)[1];
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
