#include "ui/serve/answer_text.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace tombolo::serve {
namespace {

TEST(AnswerText, ShowsNoPartOfACharacter) {
  AnswerText text({});
  EXPECT_EQ(text.add("a\xc3"), "a");
  EXPECT_EQ(text.add("\xbc"), "\u00fc");
  EXPECT_EQ(text.add("\xf0\x9f"), "");
  EXPECT_EQ(text.add("\x8c\x8a!"), "\U0001f30a!");
  EXPECT_EQ(text.finish(), "");
}

// As Unicode recommends: one U+FFFD for the longest begin of a character.
TEST(AnswerText, ReplacesWhatIsNoUtf8) {
  AnswerText text({});
  EXPECT_EQ(text.add("a\xff\x80z"), "a\ufffd\ufffdz");
  EXPECT_EQ(text.add("\xe2\x82z"), "\ufffdz");                // cut off
  EXPECT_EQ(text.add("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");  // a surrogate
  EXPECT_EQ(text.add("\xc0\xaf"), "\ufffd\ufffd");            // overlong
  EXPECT_EQ(text.add("\xf0\x9f"), "");
  EXPECT_EQ(text.finish(), "\ufffd");
}

TEST(AnswerText, HoldsBackWhatMayBecomeAStop) {
  AnswerText text({"\n\nUser:", "END"});
  EXPECT_EQ(text.add("one\n"), "one");
  EXPECT_EQ(text.add("two"), "\ntwo");
  EXPECT_EQ(text.add("\n\nUse"), "");
  EXPECT_FALSE(text.stopped());
  EXPECT_EQ(text.add("d E"), "\n\nUsed ");
  EXPECT_EQ(text.add("ND and more"), "");
  EXPECT_TRUE(text.stopped());
  EXPECT_EQ(text.add("nothing"), "");
  EXPECT_EQ(text.finish(), "");
}

TEST(AnswerText, GivesBackWhatWasNoStop) {
  AnswerText text({"END"});
  EXPECT_EQ(text.add("an E"), "an ");
  EXPECT_EQ(text.finish(), "E");
  EXPECT_FALSE(text.stopped());
}

// However a text is cut: the same as at once, up to the first stop string.
TEST(AnswerText, CutsMakeNoDifference) {
  Random random(11);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (uint64_t i = random.below(12); i > 0; --i)
      bytes += std::string("ab\xc3\xbc\xe2")[random.below(5)];
    AnswerText whole({"ab", "bba"}), cut({"ab", "bba"});
    std::string at_once = whole.add(bytes), in_parts;
    at_once += whole.finish();
    for (size_t at = 0; at < bytes.size();) {
      const size_t length = 1 + random.below(3);
      in_parts += cut.add(std::string_view(bytes).substr(at, length));
      at += length;
    }
    in_parts += cut.finish();
    EXPECT_EQ(in_parts, at_once) << "round " << round;
    EXPECT_EQ(cut.stopped(), whole.stopped());
  }
}

}  // namespace
}  // namespace tombolo::serve
