#include "transport/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::transport {
namespace {

using testing::HasSubstr;

const Token kToken = *Token::parse("000102030405060708090a0b0c0d0eff");

// What rank 0 of 4 says to this hello.
Result<int32_t> answer(const std::vector<std::byte>& hello) {
  FrameDecoder decoder(kStrangerPayloadMax);
  Result<int32_t> result = failed("no frame");
  const Status status = decoder.feed(hello, [&](const Frame& frame) -> Status {
    result = check_hello({.rank = 0, .ranks = 4, .epoch = 1, .token = kToken}, frame);
    return {};
  });
  return status ? result : fail(status.error());
}

std::string refusal(const Identity& caller, int32_t called = 0) {
  const auto rank = answer(hello_frame(caller, called));
  return rank ? "welcome" : rank.error().message;
}

TEST(Token, HexComesBack) {
  EXPECT_EQ(kToken.hex(), "000102030405060708090a0b0c0d0eff");
  const Token random = *Token::random();
  EXPECT_TRUE(random.equals(Token::parse(random.hex())->bytes()));
  EXPECT_FALSE(random.equals(kToken.bytes()));
  EXPECT_FALSE(kToken.equals({}));
}

TEST(Token, ASlipIsRefusedWithoutRepeatingIt) {
  EXPECT_THAT(Token::parse("abc").error().message, HasSubstr("32 hexadecimal digits, not 3"));
  const Error error = Token::parse("secret0405060708090a0b0c0d0e0fff").error();
  EXPECT_THAT(error.text(), testing::Not(HasSubstr("secret")));
}

TEST(Handshake, APeerOfTheJobIsWelcome) {
  EXPECT_EQ(*answer(hello_frame({.rank = 3, .ranks = 4, .epoch = 1, .token = kToken}, 0)), 3);
}

TEST(Handshake, OthersAreToldWhatIsWrong) {
  const Identity good{.rank = 3, .ranks = 4, .epoch = 1, .token = kToken};
  Identity caller = good;
  caller.token = *Token::random();
  EXPECT_THAT(refusal(caller), HasSubstr("job token differs"));
  caller = good;
  caller.rank = 4;
  EXPECT_THAT(refusal(caller), HasSubstr("says it is rank 4, the job has 4 ranks"));
  caller.rank = 0;
  EXPECT_THAT(refusal(caller), HasSubstr("duplicate rank 0"));
  caller = good;
  caller.epoch = 2;
  EXPECT_THAT(refusal(caller), HasSubstr("epoch 2, this rank in 1"));
  EXPECT_THAT(refusal(good, 2), HasSubstr("calls rank 2, this is rank 0"));
  EXPECT_THAT(answer(goodbye_frame(good)).error().message, HasSubstr("did not say hello"));
  EXPECT_EQ(answer(failure_frame(good, "no room\n\x07")).error().message, "no room ?");
}

// Without the token one learns nothing else about the job.
TEST(Handshake, TheTokenIsLookedAtFirst) {
  EXPECT_THAT(refusal({.rank = 9, .ranks = 4, .epoch = 7}, 3), HasSubstr("job token differs"));
}

}  // namespace
}  // namespace tombolo::transport
