// Regular expressions as Oniguruma reads them, which tokenizer.json is written for, in the words of
// PCRE2.
//
// Both agree on most of what patterns of tokenizers have. Translated is what they read differently:
//
//   [a-z&&[^\p{Han}]], [a[b-d]]   intersections of classes, classes in classes
//   ^ and $                       at every line
//   (?m)                          the dot matches a line feed, too
//   \h \w \s \b, [[:alpha:]]      hexadecimal digits; Unicode's own classes
//   \p{Katakana}, \p{^L}          the script, not what is also written in it; any spelling of names
//   a{,3}, a{2}?, a{2,3}+, a**    at most three; perhaps two; one or more times two or three; nested
//   \v \uHHHH                     the vertical tab; a code point
//
// What has no counterpart is refused by name (absent operators, callouts, subexpression calls, options
// but i and m). Source: Oniguruma's doc/RE and doc/SYNTAX.md, as of 6.9.
#pragma once

#include <string>

#include "base/result.h"

namespace tombolo::text {

// For PCRE2_UTF | PCRE2_UCP and line feeds as ends of lines. Unusable, with the construct and its
// byte, where there is no translation. What is no expression is PCRE2's to refuse.
Result<std::string> oniguruma_to_pcre2(const std::string& pattern);

}  // namespace tombolo::text
