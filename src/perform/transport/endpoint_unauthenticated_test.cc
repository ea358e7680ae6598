// Connections to an Endpoint that are no peer's: wrong hellos, crowds, and the wrong peer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_endpoints.h"

namespace tombolo::transport {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using link::noise;

TEST_F(EndpointTest, AStrangerWithoutTheTokenIsRefused) {
  link::Identity stranger = identity(1);
  stranger.token = *link::Token::parse("00112233445566778899aabbccddeefe");  // the last bit differs
  expect_refused(link::hello_frame(stranger, 0), "job token differs");
}

// Its own token may be an old one: then it can look for a newer.
TEST_F(EndpointTest, ADialerLearnsThatItsTokenDiffers) {
  auto zero = endpoint(0);
  link::Identity other = identity(1);
  other.token = *link::Token::random();
  auto one = *Endpoint::create({.identity = other}, clock_);
  const Status status = one->connect(0, "127.0.0.1", zero->port(), {}, soon());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().cause, ErrorCause::kTokenDiffers) << status.error().text();
}

TEST_F(EndpointTest, GarbageIsRefused) {
  const std::string_view request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  expect_refused(std::as_bytes(std::span(request)), "not a Tombolo connection");
}

TEST_F(EndpointTest, AnOversizedLengthIsRefused) {
  const link::Payload payload(100'000);
  const auto head = link::encode_header(
      {.kind = link::FrameKind::kHello, .sender = 1, .total = 100'000, .length = 100'000}, payload);
  expect_refused(head, "frame of 100000 bytes where at most 512 are allowed");
}

TEST_F(EndpointTest, AnotherVersionIsRefused) {
  auto hello = link::hello_frame(identity(1), 0);
  hello[4] = std::byte{0};
  expect_refused(hello, "the peer speaks protocol version 0, this program version 5");
}

TEST_F(EndpointTest, DataBeforeAHelloIsRefused) {
  expect_refused(data_frame({1, 1}, "hi", 2), "did not say hello first");
}

TEST_F(EndpointTest, ASlowUnauthenticatedConnectionIsClosed) {
  auto zero = endpoint(0, {30'000'000});
  RawPeer stranger(zero->port());
  const auto hello = link::hello_frame(identity(1), 0);
  stranger.say(std::span(hello).first(50));  // and never the rest
  EXPECT_EQ(stranger.refusal(), "it said no hello within 30 ms");
  EXPECT_EQ(stranger.cause(), ErrorCause::kTooManyHandshakes) << "so that a rank calls again";
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("no hello within 30 ms")));
}

// More than its decoder holds, whatever that made of the beginning. It is read, dropped, and costs no
// more than that: Driver::read() checks that no read is of no bytes, which would end at once, for ever.
TEST_F(EndpointTest, WhatARefusedConnectionGoesOnToSayIsDropped) {
  auto zero = endpoint(0);
  link::Identity other = identity(1);
  other.token = *link::Token::random();
  std::vector<std::byte> stale = link::hello_frame(other, 0);
  stale.resize(20'000);
  for (const auto& bytes : {std::vector<std::byte>(20'000, std::byte{'x'}), stale}) {
    RawPeer stranger(zero->port());
    stranger.say(bytes);
    EXPECT_THAT(stranger.refusal(),
                testing::AnyOf(HasSubstr("not a Tombolo connection"), HasSubstr("token differs")));
  }
  auto one = endpoint(1);
  link(*zero, 0, *one, 1);
  ASSERT_TRUE(one->send(0, {1, 1}, noise(1000, 1)));
  EXPECT_EQ(zero->receive(1, {1, 1}, soon())->payload, noise(1000, 1));
}

// --- Crowds -------------------------------------------------------------------------------------

// Silent connections, as many as a kernel and this process can have.
std::vector<std::unique_ptr<RawPeer>> crowd(size_t many, uint16_t port) {
  std::vector<std::unique_ptr<RawPeer>> out;
  for (size_t i = 0; i < many; ++i) out.push_back(std::make_unique<RawPeer>(port));
  return out;
}

TEST_F(EndpointTest, TheOldestStrangerMakesRoom) {
  auto zero = endpoint(0);
  const auto all = crowd(600, zero->port());
  EXPECT_EQ(all.front()->refusal(), "too many handshakes at once; try again");
  EXPECT_THAT(log_.lines(), testing::Contains(HasSubstr("hung up on 1 connections that said no")));
}

// From the address of a member, which has a token: it is in within moments.
TEST_F(EndpointTest, ACrowdKeepsNoMemberOut) {
  for (const size_t many : {256, 4'096}) {
    auto zero = endpoint(0);
    const auto all = crowd(many, zero->port());
    const SimTime before = clock_.now();
    auto one = endpoint(1);
    link(*zero, 0, *one, 1, {.connections = 4});
    RecordProperty(fmt::format("ms_behind_{}", many),
                   static_cast<int>((clock_.now() - before).ns / 1'000'000));
    ASSERT_TRUE(one->send(0, {1, 1}, noise(1000, 1)));
    EXPECT_EQ(zero->receive(1, {1, 1}, soon())->payload, noise(1000, 1));
  }
}

// The answering side has too many callers, twice; the third call is answered.
TEST_F(EndpointTest, ADialerThatWasOneTooManyTriesAgain) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{.sin_family = AF_INET};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(::listen(listener, 8), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size), 0);
  auto answers = std::async(std::launch::async, [&] {
    const auto crowd = link::failure_frame(identity(1), link::crowded());
    const auto no = link::failure_frame(identity(1), {.message = "it is late"});
    for (const auto& say : {crowd, crowd, no}) {
      const int call = ::accept(listener, nullptr, nullptr);
      ::send(call, say.data(), say.size(), MSG_NOSIGNAL);
      std::array<char, 1000> some{};
      while (recv(call, some.data(), some.size(), 0) > 0) {  // until it hangs up
      }
      ::close(call);
    }
  });
  auto zero = endpoint(0);
  const Status status = zero->connect(1, "127.0.0.1", ntohs(at.sin_port), {}, soon());
  EXPECT_THAT(status.error().message, HasSubstr("it is late"));
  answers.get();
  ::close(listener);
}

TEST_F(EndpointTest, ADuplicateRankIsRefusedAndTheFirstGoesOn) {
  std::promise<int32_t> duplicate;
  auto zero = *Endpoint::create({.identity = identity(0),
                                 .log = [this](const std::string& line) { log_.add(line); },
                                 .on_duplicate = [&](int32_t rank) { duplicate.set_value(rank); }},
                                clock_);
  auto one = endpoint(1);
  link(*zero, 0, *one, 1);
  auto impostor = endpoint(1);
  const Status status = impostor->connect(0, "127.0.0.1", zero->port(), {}, soon());
  ASSERT_FALSE(status);
  EXPECT_EQ(duplicate.get_future().get(), 1) << "the owner hears of it";
  EXPECT_EQ(status.error().cause, ErrorCause::kDuplicateRank);
  EXPECT_THAT(status.error().message, HasSubstr("duplicate rank 1: there is one already"));
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("duplicate rank 1")));
  ASSERT_TRUE(one->send(0, {1, 1}, noise(1000, 1)));
  EXPECT_EQ(zero->receive(1, {1, 1}, soon())->payload, noise(1000, 1));
}

TEST_F(EndpointTest, ADialerChecksWhoAnswers) {
  auto two = endpoint(2), one = endpoint(1);
  const Status status = one->connect(0, "127.0.0.1", two->port(), {}, soon());
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("it calls rank 0, this is rank 2"));
  EXPECT_TRUE(one->connect(2, "localhost", two->port(), {}, soon()));
}

TEST_F(EndpointTest, NobodyThereIsToldAtTheDeadline) {
  auto zero = endpoint(0);
  uint16_t port = 0;
  { port = endpoint(1)->port(); }
  const SimTime at_once = clock_.now() + SimDuration{30'000'000};
  const Status dialed = zero->connect(1, "127.0.0.1", port, {}, at_once);
  EXPECT_EQ(dialed.error().code, ErrorCode::kLostPeer);
  EXPECT_THAT(dialed.error().message, HasSubstr("rank 1 did not answer at 127.0.0.1:"));
  EXPECT_EQ(zero->await_peer(1, {}, at_once).error().message, "rank 1 did not call in time");
  EXPECT_EQ(zero->receive(1, {1, 1}, soon()).error().message, "there is no link to rank 1");
}

// A rank that is killed while it links: the run continues without it, as after any other kill.
TEST_F(EndpointTest, WhoHangsUpDuringTheHandshakeIsLost) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{.sin_family = AF_INET};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size), 0);
  auto killed =
      std::async(std::launch::async, [&] { ::close(::accept(listener, nullptr, nullptr)); });
  auto zero = endpoint(0);
  const Status dialed = zero->connect(1, "127.0.0.1", ntohs(at.sin_port), {}, soon());
  EXPECT_EQ(dialed.error().code, ErrorCode::kLostPeer);
  EXPECT_THAT(dialed.error().message, HasSubstr("it hung up during the handshake"));
  killed.get();
  ::close(listener);
}

}  // namespace
}  // namespace tombolo::transport
