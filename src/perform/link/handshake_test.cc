#include "perform/link/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>

#include "support/test_bytes.h"

namespace tombolo::link {
namespace {

using testing::HasSubstr;

// What rank 0 of 4 says to this hello.
Result<Caller> answer(const std::vector<std::byte>& hello) {
  FrameDecoder decoder(kUnauthenticatedPayloadMax);
  Result<Caller> result = failed("no frame");
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
  EXPECT_EQ(kToken.hex(), "00112233445566778899aabbccddeeff");
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
  const Identity good{.rank = 3, .ranks = 4, .epoch = 1, .token = kToken};
  EXPECT_EQ(answer(hello_frame(good, 0))->rank, 3);
  const LinkPart part{.connection = 15, .connections = 16, .attempt = 0xfedcba9876543210};
  EXPECT_EQ(answer(hello_frame(good, 0, part))->part, part);
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
  EXPECT_THAT(answer(goodbye_frame(good, 0)).error().message, HasSubstr("did not say hello"));
  EXPECT_THAT(answer(hello_frame(good, 0, {.connection = 2, .connections = 2})).error().message,
              HasSubstr("connection 2 of 2, counted from 0; a link has 1 to 16"));
  EXPECT_FALSE(answer(hello_frame(good, 0, {.connections = 0})));
  EXPECT_FALSE(answer(hello_frame(good, 0, {.connections = 17})));
  EXPECT_EQ(answer(failure_frame(good, {.message = "no room\n\x07"})).error().message, "no room ?");
}

// A hello names its process, and a redial the one whose link it resumes.
TEST(Handshake, ARedialIsForOneProcess) {
  Identity self{.rank = 3, .ranks = 4, .epoch = 1, .token = kToken};
  self.incarnation = 77;
  const LinkPart part{.connection = 1, .connections = 2, .attempt = 9, .round = 5};
  const auto caller = answer(hello_frame(self, 0, part, {.grace = {1'500'000'000}}));
  ASSERT_TRUE(caller) << caller.error().text();
  EXPECT_EQ(caller->part, part);
  EXPECT_EQ(caller->incarnation, 77u);
  EXPECT_EQ(caller->terms.grace, SimDuration{1'500'000'000});
  const auto meant_another = answer(hello_frame(self, 0, part, {.resumes = 78}));
  ASSERT_FALSE(meant_another);
  EXPECT_EQ(meant_another.error().message, "rank 0 was started again");
  EXPECT_EQ(meant_another.error().cause, ErrorCause::kRestarted);
  EXPECT_EQ(crowded().cause, ErrorCause::kTooManyHandshakes);
}

Error heard(const Error& said, uint64_t cause) {
  const auto bytes = std::as_bytes(std::span(said.message));
  const FrameHeader header{.kind = FrameKind::kFailure, .sender = 1, .tag = cause};
  return check_hello({.rank = 0, .ranks = 4, .token = kToken}, {header, bytes}).error();
}

// The caller decides by it, and the words may change.
TEST(Handshake, ARefusalCarriesItsCause) {
  const Identity self{.rank = 3, .ranks = 4, .epoch = 1, .token = kToken};
  for (int cause = 0; cause <= static_cast<int>(kLastSentCause); ++cause) {
    const Error said{.message = "in other words", .cause = static_cast<ErrorCause>(cause)};
    EXPECT_EQ(answer(failure_frame(self, said)).error().cause, said.cause);
    EXPECT_EQ(answer(failure_frame(self, said)).error().message, said.message);
  }
}

TEST(Handshake, ACauseThatThisBuildDoesNotKnowIsNone) {
  for (const uint64_t cause : {uint64_t{8}, uint64_t{9}, uint64_t{256 + 2}, UINT64_MAX})
    EXPECT_EQ(heard({.message = "there is one already"}, cause).cause, ErrorCause::kOther);
}

// Builds before these numbers are told by how their messages end.
TEST(Handshake, ARefusalWithoutACauseIsToldByItsWords) {
  const auto cause = [](const std::string& words) { return heard({.message = words}, 0).cause; };
  EXPECT_EQ(cause("its job token differs"), ErrorCause::kTokenDiffers);
  EXPECT_EQ(cause("duplicate rank 2: there is one already"), ErrorCause::kDuplicateRank);
  EXPECT_EQ(cause("this rank is about to end"), ErrorCause::kAboutToEnd);
  EXPECT_EQ(cause("too many handshakes at once; try again"), ErrorCause::kTooManyHandshakes);
  EXPECT_EQ(cause("rank 2 was started again"), ErrorCause::kRestarted);
  EXPECT_EQ(cause("this rank calls that one already"), ErrorCause::kCrossingCalls);
  EXPECT_EQ(cause("corrupt frame; it was damaged on the way, perhaps"),
            ErrorCause::kDamagedOnTheWay);
  EXPECT_EQ(cause("there is one already, or two"), ErrorCause::kOther);
}

// Without the token one learns nothing else about the job.
TEST(Handshake, TheTokenIsLookedAtFirst) {
  EXPECT_THAT(refusal({.rank = 9, .ranks = 4, .epoch = 7}, 3), HasSubstr("job token differs"));
}

// --- Gathering ----------------------------------------------------------------------------------

Caller call(uint64_t attempt, uint32_t connection, uint32_t connections = 3) {
  return {7, {.connection = connection, .connections = connections, .attempt = attempt}};
}

TEST(Gathering, IsCompleteWhenAllConnectionsCameInAnyOrder) {
  Gathering gathering;
  for (const uint32_t connection : {2u, 0u, 1u}) {
    EXPECT_FALSE(gathering.complete());
    EXPECT_EQ(*gathering.add(call(5, connection)), Gathering::Welcome::kJoined);
  }
  EXPECT_TRUE(gathering.complete());
  // A call that comes now is one too many, of whatever attempt.
  EXPECT_EQ(gathering.add(call(5, 1)).error().cause, ErrorCause::kDuplicateRank);
  EXPECT_EQ(gathering.add(call(6, 0)).error().cause, ErrorCause::kDuplicateRank);
}

// The caller's process was restarted, and nothing reported that the first one is gone.
TEST(Gathering, ANewerAttemptTakesThePlaceOfAHalf) {
  Gathering gathering;
  ASSERT_TRUE(gathering.add(call(5, 0)));
  ASSERT_TRUE(gathering.add(call(5, 1)));
  EXPECT_EQ(*gathering.add(call(6, 0, 2)), Gathering::Welcome::kJoinedAnew);
  EXPECT_FALSE(gathering.complete());
  EXPECT_EQ(gathering.add(call(5, 2)).error().message, "rank 7 has called again since");
  EXPECT_EQ(*gathering.add(call(6, 1, 2)), Gathering::Welcome::kJoined);
  EXPECT_TRUE(gathering.complete());
}

// Process 5 of rank 7 resumes connection 1 of 2; no other process does.
TEST(Gathering, ALostConnectionComesBackToTheSameProcess) {
  Gathering gathering;
  const auto from = [](uint64_t incarnation, Caller caller, uint32_t round) {
    caller.incarnation = incarnation;
    caller.part.round = round;
    return caller;
  };
  EXPECT_FALSE(gathering.add(from(5, call(9, 1, 2), 1), true)) << "there is no link yet";
  ASSERT_TRUE(gathering.add(from(5, call(9, 0, 2), 0), true));
  ASSERT_TRUE(gathering.add(from(5, call(9, 1, 2), 0), true));
  EXPECT_EQ(*gathering.add(from(5, call(9, 1, 2), 1), true), Gathering::Welcome::kResumed);
  EXPECT_THAT(gathering.add(from(5, call(9, 1, 2), 1), true).error().message,
              HasSubstr("has called again for this connection since"));
  EXPECT_EQ(*gathering.add(from(5, call(9, 1, 2), 3), true), Gathering::Welcome::kResumed);
  EXPECT_EQ(gathering.add(from(5, call(9, 0, 2), 1)).error().cause, ErrorCause::kDuplicateRank)
      << "not a link that ends with its connections";
  EXPECT_FALSE(gathering.add(from(5, call(8, 0, 2), 1), true)) << "another link";
  // Its successor called later; a process of before is a zombie and ends nothing.
  EXPECT_EQ(gathering.add(from(6, call(10, 0, 2), 0), true).error().cause, ErrorCause::kRestarted);
  EXPECT_EQ(gathering.add(from(4, call(8, 0, 2), 0), true).error().message,
            "another process has been rank 7 since");
  EXPECT_TRUE(gathering.check_again(from(5, call(9, 0, 2), 4)));
  EXPECT_EQ(gathering.check_again(from(6, call(9, 0, 2), 4)).error().cause, ErrorCause::kRestarted);
}

TEST(Gathering, RefusesWhatContradictsItself) {
  Gathering gathering;
  ASSERT_TRUE(gathering.add(call(5, 0)));
  EXPECT_THAT(gathering.add(call(5, 0)).error().message, HasSubstr("duplicate rank 7"));
  EXPECT_EQ(gathering.add(call(5, 1, 4)).error().message, "its link has 3 connections, and now 4");
}

TEST(Gathering, WhoCallsWaitsForItsOwnAttemptOnly) {
  Gathering gathering;
  gathering.expect(5, 2);
  EXPECT_FALSE(gathering.complete());
  EXPECT_EQ(gathering.add(call(6, 0, 2)).error().cause, ErrorCause::kCrossingCalls);
  EXPECT_TRUE(gathering.add(call(5, 0, 2)));
  EXPECT_TRUE(gathering.add(call(5, 1, 2)));
  EXPECT_TRUE(gathering.complete());
}

}  // namespace
}  // namespace tombolo::link
