#include "perform/link/splice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "perform/trust/message_code.h"
#include "support/test_bytes.h"

namespace tombolo::link {
namespace {

using testing::HasSubstr;

const Token kOther = *Token::parse("ffeeddccbbaa99887766554433221100");

std::string refusal_of(const Preface& preface) {
  const auto call = decode_preface(kToken, 4, preface);
  return call ? "welcome" : call.error().message;
}

// With a code that fits, as a confused rank of the job would.
Preface with_byte(size_t at, uint8_t value) {
  Preface preface = encode_preface(kToken, {1, 2, 3});
  preface[at] = static_cast<std::byte>(value);
  const auto code = trust::message_code(kToken.bytes(), std::span(preface).first(24));
  std::copy(code.begin(), code.end(), preface.begin() + 24);
  return preface;
}

TEST(Preface, SaysWhoWantsWhom) {
  const auto call = decode_preface(kToken, 4, encode_preface(kToken, {1, 2, 3}));
  ASSERT_TRUE(call);
  EXPECT_EQ(*call, (SpliceCall{1, 2, 3}));
}

TEST(Preface, DoesNotHoldTheToken) {
  const Preface preface = encode_preface(kToken, {1, 2, 3});
  const auto token = kToken.bytes();
  EXPECT_EQ(std::search(preface.begin(), preface.end(), token.begin(), token.end()), preface.end());
}

TEST(Preface, OfAStrangerIsRefused) {
  EXPECT_THAT(refusal_of({}), HasSubstr("did not begin as a rank does"));
  EXPECT_EQ(refusal_of(encode_preface(kOther, {1, 2, 3})), "its job token differs");
  Preface changed = encode_preface(kToken, {1, 2, 3});
  changed[20] = std::byte{4};  // another connection, the old code
  EXPECT_EQ(refusal_of(changed), "its job token differs");
}

TEST(Preface, WithNumbersThatCannotBeIsRefused) {
  EXPECT_EQ(refusal_of(with_byte(8, 2)),
            "the peer speaks splice version 2, this program version 1");
  EXPECT_EQ(refusal_of(with_byte(12, 4)), "rank 4 wants rank 2, the job has 4 ranks");
  EXPECT_EQ(refusal_of(with_byte(16, 9)), "rank 1 wants rank 9, the job has 4 ranks");
  EXPECT_EQ(refusal_of(with_byte(16, 1)), "rank 1 wants rank 1, the job has 4 ranks");
  EXPECT_THAT(refusal_of(with_byte(15, 0x80)), HasSubstr("rank 2147483649 wants rank 2"));
  EXPECT_THAT(refusal_of(with_byte(20, 16)), HasSubstr("connection 16, counted from 0"));
}

TEST(Pairing, JoinsTwoThatWantEachOther) {
  Pairing pairing;
  EXPECT_FALSE(pairing.add(10, {1, 2, 0}).partner);
  EXPECT_FALSE(pairing.add(11, {1, 2, 1}).partner);  // another connection
  EXPECT_FALSE(pairing.add(12, {2, 3, 0}).partner);  // wants another rank
  EXPECT_EQ(pairing.add(13, {2, 1, 0}).partner, 10u);
  EXPECT_EQ(pairing.waiting(), 2u);
  EXPECT_FALSE(pairing.add(14, {2, 1, 0}).partner);  // 10 is taken
}

TEST(Pairing, ForgetsWhoHungUp) {
  Pairing pairing;
  pairing.add(10, {1, 2, 0});
  pairing.remove(10);
  pairing.remove(99);
  EXPECT_FALSE(pairing.add(11, {2, 1, 0}).partner);
  EXPECT_EQ(pairing.waiting(), 1u);
}

TEST(Pairing, TheNewerCallOfARankCounts) {
  Pairing pairing;
  pairing.add(10, {1, 2, 0});
  EXPECT_EQ(pairing.add(11, {1, 2, 0}).replaced, 10u);
  pairing.remove(10);  // its end is no news any more
  EXPECT_EQ(pairing.add(12, {2, 1, 0}).partner, 11u);
  EXPECT_EQ(pairing.waiting(), 0u);
}

// Both sides of every connection of 6 links call in any order, and hang up in between: in the end
// each is joined to the one it wanted, once, and none waits.
TEST(Pairing, EverybodyMeetsInAnyOrder) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<SpliceCall> calls;
    for (int32_t a = 0; a < 4; ++a) {
      for (int32_t b = 0; b < 4; ++b) {
        for (uint32_t c = 0; a != b && c < 3; ++c) calls.push_back({a, b, c});
      }
    }
    for (size_t i = calls.size(); i > 1; --i) std::swap(calls[i - 1], calls[random.next() % i]);
    Pairing pairing;
    std::map<Pairing::Id, SpliceCall> said;
    size_t joined = 0;
    Pairing::Id id = 0;
    for (const SpliceCall& call : calls) {
      // A first call may be lost, noticed or not.
      const uint64_t luck = random.next() % 4;
      std::optional<Pairing::Answer> answer;
      if (luck == 0) {
        said[++id] = call;
        answer = pairing.add(id, call);
        if (!answer->partner && random.next() % 2 == 0) pairing.remove(id);
      }
      if (!answer || !answer->partner) {
        said[++id] = call;
        answer = pairing.add(id, call);
      }
      if (!answer->partner) continue;
      ++joined;
      const SpliceCall& other = said.at(*answer->partner);
      EXPECT_EQ(other, (SpliceCall{call.to, call.from, call.connection}));
    }
    EXPECT_EQ(joined, calls.size() / 2);
    EXPECT_EQ(pairing.waiting(), 0u);
  }
}

}  // namespace
}  // namespace tombolo::link
