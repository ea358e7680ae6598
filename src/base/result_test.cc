#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

#include "base/check.h"

namespace tombolo {
namespace {

TEST(Result, AnErrorTellsWhatWasDoneAndWhatToTry) {
  const Result<int> result = during(
      during(Result<int>(unusable("a.toml:3: no", "yes")), "reading the link"), "loading a.toml");
  EXPECT_EQ(result.error().text(),
            "a.toml:3: no\n  while reading the link\n  while loading a.toml\n  try yes");
  EXPECT_EQ(Result<int>(failed("only this")).error().text(), "only this");
}

TEST(Result, CodesAreExitCodes) {
  EXPECT_EQ(failed("").value().exit_code(), 1);
  EXPECT_EQ(unusable("").value().exit_code(), 2);
  EXPECT_EQ(infeasible("").value().exit_code(), 3);
  EXPECT_EQ((Error{ErrorCode::kLostPeer, "", {}, ""}).exit_code(), 1);
}

Result<std::unique_ptr<int>> make(bool good) {
  if (!good) return failed("no number today");
  return std::make_unique<int>(20);
}
Result<int> twice(bool good) { return *TRY(make(good)) + *TRY(make(true)); }

TEST(Result, TryUnwrapsOrReturns) {
  EXPECT_EQ(*twice(true), 40);  // of a type that only moves
  EXPECT_EQ(twice(false).error().message, "no number today");
}

TEST(CheckDeathTest, ABugStopsTheProgramAndSaysWhere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int start = 5;
  EXPECT_DEATH(CHECK(start < 3, "link freed at {}", start),
               "result_test.cc:[0-9]+: bug: start < 3 does not hold: link freed at 5");
}

}  // namespace
}  // namespace tombolo
