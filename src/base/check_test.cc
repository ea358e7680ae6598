#include "base/check.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace tombolo {
namespace {

TEST(Check, AHandlerMayThrowInsteadOfTheEnd) {
  on_failed_check([](const std::string& text) { throw std::logic_error(text); });
  std::string said;
  try {
    CHECK(1 > 2, "{} is not larger", 1);
  } catch (const std::logic_error& bug) {
    said = bug.what();
  }
  on_failed_check(nullptr);
  EXPECT_TRUE(said.ends_with("bug: 1 > 2 does not hold: 1 is not larger")) << said;
}

TEST(CheckDeathTest, WithoutOneOrAfterOneThatReturnsTheProcessEnds) {
  EXPECT_DEATH(CHECK(false, "no handler"), "bug: false does not hold: no handler");
  on_failed_check([](const std::string&) {});
  EXPECT_DEATH(CHECK(false, "it returned"), "bug: false does not hold: it returned");
  on_failed_check(nullptr);
}

}  // namespace
}  // namespace tombolo
