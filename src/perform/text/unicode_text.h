// UTF-8: whether a text is that, and its normal forms. By utf8proc.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo::text {

// The first byte that is not part of UTF-8; nothing where all are.
std::optional<size_t> first_invalid_byte(std::string_view text);

// Unusable, by byte, where there is one.
Status check_utf8(std::string_view text);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Of valid UTF-8. Texts of ASCII alone come back as they are.
Result<std::string> normalized(std::string_view text, NormalForm form);

}  // namespace tombolo::text
