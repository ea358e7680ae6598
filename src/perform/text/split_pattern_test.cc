#include "perform/text/split_pattern.h"

#include <gmock/gmock.h>

#include <vector>

#include "perform/text/unicode_text.h"

namespace tombolo::text {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> pieces(const std::string& pattern, std::string_view text,
                                bool literal = false) {
  const auto compiled = SplitPattern::compile(pattern, literal);
  EXPECT_TRUE(compiled) << (compiled ? "" : compiled.error().text());
  std::vector<std::string> out;
  if (!compiled) return out;
  const Status split = compiled->split(text, [&](std::string_view piece, bool matches) -> Status {
    out.push_back((matches ? "+" : "-") + std::string(piece));
    return {};
  });
  EXPECT_TRUE(split) << (split ? "" : split.error().text());
  return out;
}

TEST(SplitPattern, HandsOutMatchesAndWhatLiesBetween) {
  EXPECT_THAT(pieces("[0-9]+", "a12b3"), ElementsAre("-a", "+12", "-b", "+3"));
  EXPECT_THAT(pieces("x*", "axxb"), ElementsAre("-a", "+xx", "-b"));  // no empty ones
  EXPECT_THAT(pieces("x*", "äß"), ElementsAre("-äß"));
  EXPECT_THAT(pieces("a.", "xa.ab", true), ElementsAre("-x", "+a.", "-ab"));
  EXPECT_THAT(pieces("a", ""), ElementsAre());
}

TEST(SplitPattern, KnowsUnicodeClasses) {
  EXPECT_THAT(pieces(R"(\p{L}+)", "Straße für 日本 42"),
              ElementsAre("+Straße", "- ", "+für", "- ", "+日本", "- 42"));
  EXPECT_THAT(pieces(R"(\s+)", "a\u00a0\u3000b"), ElementsAre("-a", "+\u00a0\u3000", "-b"));
}

// Llama 3's pattern, as its tokenizer.json has it.
TEST(SplitPattern, SplitsAsLlama3) {
  EXPECT_THAT(pieces(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                     "Hello world 12345\n\n  it'S (so)!\n"),
              ElementsAre("+Hello", "+ world", "+ ", "+123", "+45", "+\n\n", "+ ", "+ it", "+'S",
                          "+ (", "+so", "+)!\n"));
}

TEST(SplitPattern, RefusesWhatIsNoPatternOrDoesNotEnd) {
  const auto broken = SplitPattern::compile("a(b");
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().text(), HasSubstr("\"a(b\" is no regular expression, at byte 3"));
  EXPECT_FALSE(SplitPattern::compile(""));
  const auto endless = SplitPattern::compile("(?:a|aa)+$");
  ASSERT_TRUE(endless) << endless.error().text();
  const Status split =
      endless->split(std::string(60, 'a') + "c", [](std::string_view, bool) { return Status{}; });
  ASSERT_FALSE(split);
  EXPECT_THAT(split.error().text(), HasSubstr("matching a pattern from byte 0 of 61"));
}

TEST(UnicodeText, FindsTheFirstByteThatIsNoUtf8) {
  EXPECT_EQ(first_invalid_byte("plain, Grüße, 日本, 😁"), std::nullopt);
  EXPECT_EQ(first_invalid_byte("ab\xff"), 2u);
  EXPECT_EQ(first_invalid_byte("ab\xc3"), 2u);             // cut off
  EXPECT_EQ(first_invalid_byte("\xed\xa0\x80"), 0u);       // half of a surrogate
  EXPECT_EQ(first_invalid_byte("\xc0\xaf"), 0u);           // longer than it need be
  EXPECT_EQ(first_invalid_byte("a\xf4\x90\x80\x80"), 1u);  // beyond U+10FFFF
}

TEST(UnicodeText, HasNormalForms) {
  EXPECT_EQ(*normalized("u\u0308ber", NormalForm::kNfc), "\u00fcber");
  EXPECT_EQ(*normalized("\u00fcber", NormalForm::kNfd), "u\u0308ber");
  EXPECT_EQ(*normalized("\ufb01n", NormalForm::kNfkc), "fin");
  EXPECT_EQ(*normalized("\ufb01n", NormalForm::kNfc), "\ufb01n");
  EXPECT_EQ(*normalized("plain", NormalForm::kNfkd), "plain");
}

}  // namespace
}  // namespace tombolo::text
