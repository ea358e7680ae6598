#include "perform/text/unicode_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace tombolo::text {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
}

utf8proc_option_t options_of(NormalForm form) {
  int options = UTF8PROC_STABLE;
  const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  options |= composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

const uint8_t* bytes_of_text(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

}  // namespace

std::optional<size_t> first_invalid_byte(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(
        bytes_of_text(text) + at, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    if (length <= 0) return at;
    at += static_cast<size_t>(length);
  }
  return std::nullopt;
}

Result<std::string> normalized(std::string_view text, NormalForm form) {
  if (is_ascii(text)) return std::string(text);
  uint8_t* made = nullptr;
  const utf8proc_ssize_t length = utf8proc_map(
      bytes_of_text(text), static_cast<utf8proc_ssize_t>(text.size()), &made, options_of(form));
  const std::unique_ptr<uint8_t, decltype(&std::free)> owned(made, &std::free);
  if (length < 0) {
    return unusable(fmt::format("normalizing {} bytes: {}", text.size(), utf8proc_errmsg(length)));
  }
  return std::string(reinterpret_cast<const char*>(made), static_cast<size_t>(length));
}

Status check_utf8(std::string_view text) {
  const auto invalid = first_invalid_byte(text);
  if (!invalid) return {};
  return unusable(fmt::format("byte {} ({:#04x}) is no UTF-8", *invalid,
                              static_cast<unsigned char>(text[*invalid])),
                  "the text in UTF-8: iconv -f LATIN1 -t UTF-8");
}

}  // namespace tombolo::text
