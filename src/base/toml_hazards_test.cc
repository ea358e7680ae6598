#include "base/toml_hazards.h"

#include <gtest/gtest.h>

#include "base/toml.h"

namespace tombolo {
namespace {

std::string hazard(std::string_view text) {
  const Status checked = check_toml_hazards(text, "t", 3);
  return checked ? "none" : checked.error().message;
}

constexpr const char* kOutside = "a character beyond ASCII outside quotes";

TEST(TomlHazards, DotsAreCountedOutsideOfStringsAndComments) {
  EXPECT_EQ(hazard("a.b.c.d = 1.5"), "t:1: nested too deeply");
  EXPECT_EQ(hazard("a.b.c = 1.5\nd = 2.5"), "none");
  EXPECT_EQ(hazard("a = '....' # ....\nb = \"\"\"\n....\n\"\"\"\nc = '''\n....'''"), "none");
}

TEST(TomlHazards, LettersBeyondAsciiBelongInQuotes) {
  EXPECT_EQ(hazard("caf\u00e9 = 1"), fmt::format("t:1: {}", kOutside));
  EXPECT_EQ(hazard("\nname = \u201coregon\u201d"), fmt::format("t:2: {}", kOutside));
  EXPECT_EQ(hazard("a = 1980-05\ufe0f"), fmt::format("t:1: {}", kOutside));
  EXPECT_EQ(hazard("a = \"\u00e9\" # \u2764\ufe0f\n\"\u00e9\" = '\u00e9'\n"), "none");
  EXPECT_EQ(hazard("\ufeff# a byte order mark\n"), "none");
  EXPECT_EQ(hazard("\n\ufeff"), fmt::format("t:2: {}", kOutside));
}

// A string ends where toml++ thinks that it does: what follows is outside.
TEST(TomlHazards, StringsEndWhereTheyShould) {
  for (const char* text :
       {R"("")", R"("\"\\")", R"('\')", R"("""""")", R"("""a"b""c"""")", R"("""a""""")",
        R"("""\"""")", R"('''a'b''''')", "\"\"\"\n\n\"\"\"", "\"\"\"a \\  \n  b\"\"\""}) {
    const std::string line = fmt::format("a = {}", text);
    EXPECT_TRUE(parse_toml(line, "t")) << line;
    EXPECT_TRUE(hazard(line + "\u00e9").ends_with(kOutside)) << line;
    EXPECT_EQ(hazard(line + " # \u00e9"), "none") << line;
  }
  EXPECT_EQ(hazard("a = \"never closed\n\u00e9"), fmt::format("t:2: {}", kOutside));
}

// toml++ takes such a quote for a part of the date, and what follows for its end.
TEST(TomlHazards, AQuoteInsideAValueOpensNothing) {
  EXPECT_EQ(hazard("a = 00\"7-05\ufe0f\n"), fmt::format("t:1: {}", kOutside));
  EXPECT_EQ(hazard("a = 0;\u0001\"4-05\ufe0f\n"), fmt::format("t:1: {}", kOutside));
  EXPECT_EQ(hazard("a = 1.\"5\ufe0f\n"), fmt::format("t:1: {}", kOutside));
  EXPECT_EQ(hazard("a = [1,\n2.\"5\ufe0f]"), fmt::format("t:2: {}", kOutside));
  EXPECT_EQ(hazard("a = {b = 1, c.\"\u00e9\" = [\"\u00e9\"]}\nd.\"\u00e9\" = 1"), "none");
  EXPECT_EQ(hazard("a = 1 # b\nc.\"\u00e9\" = 1"), "none");
  EXPECT_EQ(hazard("[a.\"\u00e9\"]\n[[a.'\u00e9']]\nb.\"\u00e9\" = 1"), "none");
  EXPECT_EQ(hazard("a = 1'\ufe0f'"), fmt::format("t:1: {}", kOutside));
  EXPECT_EQ(hazard("a.\"\u00e9\" = {b='\u00e9',c=[\"\u00e9\"]}"), "none");
}

TEST(TomlHazards, NothingBeyondAsciiFollowsABackslash) {
  const std::string_view what = "a character beyond ASCII follows a \\";
  EXPECT_TRUE(hazard("a = \"\"\"b \\\n  \u00e9\"\"\"").starts_with(fmt::format("t:2: {}", what)));
  EXPECT_TRUE(hazard("a = \"\"\"\\\u00e9\"\"\"").starts_with(fmt::format("t:1: {}", what)));
  EXPECT_EQ(hazard("a = \"\"\"b \\\n  c \u00e9\n\u00e9\"\"\""), "none");
  EXPECT_EQ(hazard("a = '''\\\n\u00e9'''"), "none");  // no escape there
}

}  // namespace
}  // namespace tombolo
