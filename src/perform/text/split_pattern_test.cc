#include "perform/text/split_pattern.h"

#include <dlfcn.h>
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
  EXPECT_THAT(pieces("x*", "äß"), ElementsAre("-ä", "-ß"));  // cut where nothing is matched
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

// Pieces as Hugging Face's tokenizers 0.23.3 makes them, which asks Oniguruma 6.9.
TEST(SplitPattern, MeansWhatOnigurumaMeans) {
  // Kimi K2: letters, but no Chinese ones.
  constexpr const char* kKimi = R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
                                R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+|\p{Han}+)";
  EXPECT_THAT(pieces(kKimi, "Hello world日本b"), ElementsAre("+Hello", "+ world", "+日本", "+b"));
  // SuperBPE: matches of no length cut.
  constexpr const char* kThousands = R"((?=(\d{3})+(?!\d)))";
  EXPECT_THAT(pieces(kThousands, "1234567"), ElementsAre("-1", "-234", "-567"));
  EXPECT_THAT(pieces(kThousands, "12345 123"), ElementsAre("-12", "-345 ", "-123"));
  // BLOOM: a class in a class.
  EXPECT_THAT(pieces(R"( ?[^(\s|[.,!?…。，、।۔،])]+)", "Hi, you. 日。"),
              ElementsAre("+Hi", "-,", "+ you", "-.", "+ 日", "-。"));
  EXPECT_THAT(pieces("[a-z[A-Z]]+", "aBc-ABC"), ElementsAre("+aBc", "--", "+ABC"));
  EXPECT_THAT(pieces("[a-z&&[^aeiou]&&[^t]]+", "strand"),
              ElementsAre("+s", "-t", "+r", "-a", "+nd"));
  EXPECT_THAT(pieces("[^a-c&&[^\n]]+", "ab\nxc"), ElementsAre("-ab", "+\nx", "-c"));
  EXPECT_THAT(pieces("[^a[^b]]+", "abc"), ElementsAre("-a", "+b", "-c"));
  // Lines.
  EXPECT_THAT(pieces("b$", "a\nb\na\nb"), ElementsAre("-a\n", "+b", "-\na\n", "+b"));
  EXPECT_THAT(pieces("^a", "a\nba\na"), ElementsAre("+a", "-\nba\n", "+a"));
  EXPECT_THAT(pieces("(?m).+", "a\nb"), ElementsAre("+a\nb"));
  EXPECT_THAT(pieces(".+", "a\r\nb"), ElementsAre("+a\r", "-\n", "+b"));
  // Scripts, not where else a character is used; classes; spellings.
  EXPECT_THAT(pieces(R"(\p{Katakana}+)", "カタカナー"), ElementsAre("+カタカナ", "-ー"));
  EXPECT_THAT(pieces(R"(\h+)", "xbeef 7g"), ElementsAre("-x", "+beef", "- ", "+7", "-g"));
  EXPECT_THAT(pieces(R"(\w+)", "e\u0301 _²-x"), ElementsAre("+e\u0301", "- ", "+_²", "--", "+x"));
  EXPECT_THAT(pieces(R"([\w]+)", "a²"), ElementsAre("+a", "-²"));
  EXPECT_THAT(pieces(R"(\b)", "e\u0301 a"), ElementsAre("-e\u0301", "- ", "-a"));
  EXPECT_THAT(pieces(R"(\s+)", "a\u180eb\u3000c"), ElementsAre("-a\u180eb", "+\u3000", "-c"));
  EXPECT_THAT(pieces(R"(\p{^L}+)", "ab12"), ElementsAre("-ab", "+12"));
  EXPECT_THAT(pieces(R"(\p{uppercase_letter})", "aB"), ElementsAre("-a", "+B"));
  // Quantifiers and options as Ruby has them.
  EXPECT_THAT(pieces(R"(\d{1,3}+)", "12345 6"), ElementsAre("+12345", "- ", "+6"));
  EXPECT_THAT(pieces("a{,2}b", "aaab"), ElementsAre("-a", "+aab"));
  EXPECT_THAT(pieces("a(?i)b|c", "aB C ac"), ElementsAre("+aB", "- C ", "+ac"));
  EXPECT_THAT(pieces(R"(\u0041+)", "AAB"), ElementsAre("+AA", "-B"));
}

// What no other library writes the same way.
TEST(SplitPattern, TakesWhatOnlyOnigurumaHas) {
  EXPECT_THAT(pieces("(?x) a b", "ab a b"), ElementsAre("+ab", "- a b"));
  EXPECT_THAT(pieces(R"(\X)", "e\u0301a"), ElementsAre("+e\u0301", "+a"));
  EXPECT_THAT(pieces(R"(\p{In_Hiragana}+)", "xあy"), ElementsAre("-x", "+あ", "-y"));
  EXPECT_THAT(pieces(R"((a)\g<1>)", "aab"), ElementsAre("+aa", "-b"));
}

TEST(SplitPattern, RefusesWhatIsNoPatternOrDoesNotEnd) {
  const auto broken = SplitPattern::compile("a(b");
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().text(), HasSubstr("\"a(b\" is no regular expression: end pattern"));
  for (const char* pattern : {R"(\p{Klingon}+)", "[ab", "(?<n", "*a"}) {
    const auto refused = SplitPattern::compile(pattern);
    ASSERT_FALSE(refused) << pattern;
    EXPECT_THAT(refused.error().text(), HasSubstr("is no regular expression: "));
    EXPECT_FALSE(refused.error().hint.empty());
  }
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

// Oniguruma has a regcomp of its own. Compiled with that, matched with libc's regexec, an
// expression waits for a lock for ever.
TEST(SplitPattern, LeavesOthersTheirRegularExpressions) {
  Dl_info from = {};
  ASSERT_NE(dladdr(dlsym(RTLD_NEXT, "regcomp"), &from), 0);
  EXPECT_THAT(from.dli_fname, HasSubstr("libc.so"));
}

}  // namespace
}  // namespace tombolo::text
