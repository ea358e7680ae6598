#include "base/hash.h"

#include <gtest/gtest.h>

namespace tombolo {
namespace {

TEST(Hash, DigestIsTheKnownXxh3) {
  // From the xxHash specification's reference program: XXH3, 128 bits.
  EXPECT_EQ(digest(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(digest("abc"), "06b05ab6733a618578af5f94892f3950");
  EXPECT_NE(digest("abc"), digest(std::string_view("abc\0", 4)));
}

std::string fingerprint_of(std::initializer_list<uint64_t> words) {
  Fingerprint fingerprint;
  for (const uint64_t word : words) fingerprint.add(word);
  return fingerprint.text();
}

TEST(Hash, AFingerprintSeesOrderCountAndContent) {
  EXPECT_EQ(fingerprint_of({}), "0000000000000000");
  EXPECT_EQ(fingerprint_of({1, 2, 3}), fingerprint_of({1, 2, 3}));
  EXPECT_NE(fingerprint_of({1, 2, 3}), fingerprint_of({1, 3, 2}));
  EXPECT_NE(fingerprint_of({0}), fingerprint_of({0, 0}));
  EXPECT_EQ(fingerprint_of({1}).size(), 16u);
}

TEST(Hash, ADigestThatWasMovedAwayIsOver) {
  RunningDigest digest;
  const RunningDigest taken = std::move(digest);
  EXPECT_DEATH(digest.add("abc"), "3 bytes for a digest that was moved away");
  EXPECT_DEATH(digest.text(), "the text of a digest that was moved away");
}

}  // namespace
}  // namespace tombolo
