// Endpoints over real loopback sockets, and what happens when somebody misbehaves. Deadlines are
// generous and only reached by a failure; nothing here is decided by how fast the machine is.
#include "perform/transport/endpoint.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <mutex>

#include "base/random.h"
#include "support/test_bytes.h"

namespace tombolo::transport {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using link::kToken;
using link::noise;

// What an endpoint logs; the io thread writes, the test reads.
class Log {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

// A connection that speaks the wire format by hand, rightly or wrongly.
class RawPeer {
 public:
  explicit RawPeer(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  }
  ~RawPeer() { hang_up(); }
  void hang_up() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

  void say(std::span<const std::byte> bytes) {
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  }
  void say(std::string_view text) { say(std::as_bytes(std::span(text))); }

  // The next frame's kind, or nothing at the end of the stream; `text` is its payload.
  std::optional<link::FrameKind> hear(std::string* text = nullptr) {
    while (true) {
      const auto frame = decoder_.next();
      if (!frame) return std::nullopt;
      if (*frame) {
        if (text) *text = link::printable((*frame)->payload);
        return (*frame)->header.kind;
      }
      const auto space = decoder_.space();
      const ssize_t got = recv(fd_, space.data(), space.size(), 0);
      if (got <= 0) return std::nullopt;
      decoder_.commit(static_cast<size_t>(got));
    }
  }

  // Hears the failure frame and the end after it.
  std::string refusal() {
    std::string text;
    if (hear(&text) != link::FrameKind::kFailure) return "no failure frame";
    if (hear()) return "the connection goes on";
    return text;
  }

 private:
  int fd_;
  link::FrameDecoder decoder_;
};

class EndpointTest : public testing::Test {
 protected:
  SimTime soon() const { return clock_.now() + SimDuration{60'000'000'000}; }

  link::Identity identity(int32_t rank, int32_t ranks = 3) const {
    return {.rank = rank, .ranks = ranks, .epoch = 1, .token = kToken};
  }
  std::unique_ptr<Endpoint> endpoint(int32_t rank, SimDuration handshake_max = {60'000'000'000}) {
    auto made = Endpoint::create({.identity = identity(rank),
                                  .message_max = 64 << 20,
                                  .handshake_max = handshake_max,
                                  .log = [this](const std::string& line) { log_.add(line); }},
                                 clock_);
    EXPECT_TRUE(made) << made.error().text();
    return std::move(*made);
  }
  void link(Endpoint& a, int32_t rank_a, Endpoint& b, int32_t rank_b,
            const link::LinkShape& shape = {}) {
    auto dialed = std::async(std::launch::async, [&] {
      return b.connect(rank_a, "127.0.0.1", a.port(), shape, soon());
    });
    const Status awaited = a.await_peer(rank_b, shape, soon());
    EXPECT_TRUE(awaited) << awaited.error().text();
    const Status status = dialed.get();
    EXPECT_TRUE(status) << status.error().text();
  }
  // A peer by hand that says a good hello as rank 1 to rank 0, and is accepted.
  void introduce(RawPeer& peer, Endpoint& to) {
    peer.say(link::hello_frame(identity(1), 0));
    EXPECT_EQ(peer.hear(), link::FrameKind::kHello);
    EXPECT_TRUE(to.await_peer(1, {}, soon()));
  }

  // A stranger says this; it hears one refusal, one line is logged, and a real peer still gets in.
  void expect_refused(std::span<const std::byte> hello, const std::string& why) {
    auto zero = endpoint(0);
    {
      RawPeer stranger(zero->port());
      stranger.say(hello);
      EXPECT_THAT(stranger.refusal(), HasSubstr(why));
    }
    EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr(why)));
    EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("refused a connection from 127.0.0.1:")));
    EXPECT_THAT(log_.lines()[0], testing::Not(HasSubstr(kToken.hex())));
    auto one = endpoint(1);
    link(*zero, 0, *one, 1);
  }

  SystemClock clock_;
  Log log_;
};

TEST_F(EndpointTest, WhatARankSendsToItselfIsThereAtOnce) {
  auto zero = endpoint(0);
  ASSERT_TRUE(zero->send(0, {1, 1}, link::Payload(3)));
  EXPECT_EQ(zero->queued_bytes(), 0u);
  EXPECT_EQ(zero->receive(0, {1, 1}, clock_.now())->payload.size(), 3u);
  EXPECT_FALSE(zero->receive(0, {1, 1}, clock_.now()));
}

// Rank 2 is silent, and then gone: what rank 1 and the rank itself sent is taken nevertheless.
TEST_F(EndpointTest, OfSeveralMessagesTheFirstThatIsHereIsTaken) {
  auto zero = endpoint(0), one = endpoint(1), two = endpoint(2);
  link(*zero, 0, *one, 1);
  link(*zero, 0, *two, 2);
  const std::vector<Endpoint::Awaited> wanted{{2, {1, 1}}, {1, {1, 2}}, {0, {1, 3}}};
  ASSERT_TRUE(one->send(0, {1, 2}, link::Payload(7)));
  const auto first = zero->receive_any(wanted, soon());
  ASSERT_TRUE(first) << first.error().text();
  EXPECT_EQ(first->which, 1u);
  EXPECT_EQ(first->message.payload.size(), 7u);
  two.reset();
  EXPECT_THAT(zero->receive(2, {1, 1}, soon()).error().message, HasSubstr("lost rank 2"));
  ASSERT_TRUE(zero->send(0, {1, 3}, {}));
  EXPECT_EQ(zero->receive_any(wanted, soon())->which, 2u);
  EXPECT_THAT(zero->receive_any(wanted, soon()).error().message, HasSubstr("lost rank 2"));
  const std::vector<Endpoint::Awaited> late{{1, {1, 9}}};
  EXPECT_EQ(zero->receive_any(late, clock_.now()).error().message,
            "rank 1 did not send iteration 1 tensor 9 in time");
}

// A data frame of rank 1, in epoch 1.
std::vector<std::byte> data_frame(link::Tag tag, std::string_view text, uint64_t total) {
  return link::encode_frame({.kind = link::FrameKind::kData,
                             .sender = 1,
                             .epoch = 1,
                             .iteration = tag.iteration,
                             .tag = tag.tensor,
                             .message = tag.tensor,
                             .total = total,
                             .length = static_cast<uint32_t>(text.size())},
                            std::as_bytes(std::span(text)));
}

TEST_F(EndpointTest, MessagesKeepTheirBytesInBothDirections) {
  auto zero = endpoint(0), one = endpoint(1);
  link(*zero, 0, *one, 1);
  const std::vector<size_t> sizes = {0, 1, 262'143, 262'144, 262'145, 5'000'000};
  for (uint64_t i = 0; i < sizes.size(); ++i) {
    ASSERT_TRUE(zero->send(1, {1, i}, noise(sizes[i], i)));
    ASSERT_TRUE(one->send(0, {1, i}, noise(sizes[i], 100 + i)));
  }
  for (uint64_t i = sizes.size(); i-- > 0;) {  // in another order than they were sent
    const auto at_one = one->receive(0, {1, i}, soon());
    const auto at_zero = zero->receive(1, {1, i}, soon());
    ASSERT_TRUE(at_one && at_zero);
    EXPECT_EQ(at_one->payload, noise(sizes[i], i));
    EXPECT_EQ(at_zero->payload, noise(sizes[i], 100 + i));
    EXPECT_LE(at_one->sent_start, at_one->delivered);
  }
  EXPECT_TRUE(zero->flush(soon()));
  EXPECT_EQ(zero->queued_bytes(), 0u);
}

TEST_F(EndpointTest, EqualTagsComeInTheOrderTheyWereSent) {
  auto zero = endpoint(0), one = endpoint(1);
  link(*zero, 0, *one, 1);
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(zero->send(1, {1, 7}, noise(100, i)));
  for (uint64_t i = 0; i < 20; ++i)
    EXPECT_EQ(one->receive(0, {1, 7}, soon())->payload, noise(100, i));
}

// --- Links of several connections ---------------------------------------------------------------

TEST_F(EndpointTest, AStripedLinkKeepsBytesAndOrder) {
  // Paced, unpaced and over a slow network: three ways to decide when a connection takes more.
  const std::vector<link::LinkShape> shapes = {{.connections = 16},
                                               {.rate = 10_Gbps, .connections = 3},
                                               {.slow_network = true, .connections = 5}};
  for (const link::LinkShape& shape : shapes) {
    auto zero = endpoint(0), one = endpoint(1);
    link(*zero, 0, *one, 1, shape);
    for (uint64_t i = 0; i < 20; ++i) {
      ASSERT_TRUE(zero->send(1, {1, i % 3}, noise(i * 30'000, i), i % 2));
      ASSERT_TRUE(one->send(0, {1, 1}, noise(i * 1000, 50 + i)));
    }
    for (uint64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(one->receive(0, {1, i % 3}, soon())->payload, noise(i * 30'000, i));
      EXPECT_EQ(zero->receive(1, {1, 1}, soon())->payload, noise(i * 1000, 50 + i));
    }
    auto closing = std::async(std::launch::async, [&] { return zero->close(soon()); });
    EXPECT_TRUE(one->close(soon()));
    EXPECT_TRUE(closing.get());
  }
}

// Closed with nearly everything still queued.
TEST_F(EndpointTest, ClosingAStripedLinkLosesNothing) {
  const std::vector<link::LinkShape> shapes = {{.connections = 8},
                                               {.rate = 1_Gbps, .connections = 8},
                                               {.slow_network = true, .connections = 8}};
  for (const link::LinkShape& shape : shapes) {
    auto zero = endpoint(0), one = endpoint(1);
    link(*zero, 0, *one, 1, shape);
    for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(zero->send(1, {1, i}, noise(200'000, i)));
    const Status closed = zero->close(soon());
    ASSERT_TRUE(closed) << closed.error().text();
    zero.reset();
    for (uint64_t i = 0; i < 10; ++i)
      EXPECT_EQ(one->receive(0, {1, i}, soon())->payload, noise(200'000, i));
    EXPECT_EQ(one->receive(0, {2, 0}, soon()).error().message,
              "rank 0 finished and closed its link");
    EXPECT_TRUE(one->close(soon()));
  }
}

// On a link of 1 Mbps 12 MB would take 96 s; the urgent message does not wait for them.
TEST_F(EndpointTest, AnUrgentMessageOvertakesWhatIsQueued) {
  auto zero = endpoint(0), one = endpoint(1);
  link(*zero, 0, *one, 1, {.rate = 1_Mbps, .connections = 2});
  ASSERT_TRUE(zero->send(1, {1, 1}, link::Payload(12'000'000), 9));
  ASSERT_TRUE(zero->send(1, {1, 2}, noise(1000, 2), 1));
  EXPECT_EQ(one->receive(0, {1, 2}, soon())->payload, noise(1000, 2));
  EXPECT_GT(zero->queued_bytes(), 11'000'000u);
}

TEST_F(EndpointTest, AStripedLinkThatLosesAConnectionIsLost) {
  auto zero = endpoint(0);
  RawPeer first(zero->port()), second(zero->port());
  for (uint32_t i = 0; i < 2; ++i) {
    RawPeer& peer = i == 0 ? first : second;
    peer.say(link::hello_frame(identity(1), 0, {.connection = i, .connections = 2, .attempt = 1}));
    EXPECT_EQ(peer.hear(), link::FrameKind::kHello);
  }
  ASSERT_TRUE(zero->await_peer(1, {}, soon()));
  second.hang_up();
  const auto received = zero->receive(1, {1, 1}, soon());
  EXPECT_EQ(received.error().code, ErrorCode::kLostPeer);
  EXPECT_FALSE(first.hear());  // hung up on
}

// A caller that died leaves half a link; its successor, called anew, gets a whole one.
TEST_F(EndpointTest, HalfALinkMakesRoomForANewCall) {
  auto zero = endpoint(0);
  RawPeer half(zero->port());
  half.say(link::hello_frame(identity(1), 0, {.connection = 1, .connections = 2, .attempt = 1}));
  EXPECT_EQ(half.hear(), link::FrameKind::kHello);
  auto one = endpoint(1);
  link(*zero, 0, *one, 1, {.connections = 2});
  EXPECT_FALSE(half.hear());  // hung up on
  ASSERT_TRUE(one->send(0, {1, 1}, noise(1000, 1)));
  EXPECT_EQ(zero->receive(1, {1, 1}, soon())->payload, noise(1000, 1));
}

TEST_F(EndpointTest, HalfALinkIsGivenUpInTheEnd) {
  auto zero = endpoint(0, {30'000'000});
  RawPeer half(zero->port());
  half.say(link::hello_frame(identity(1), 0, {.connection = 0, .connections = 2, .attempt = 1}));
  EXPECT_EQ(half.hear(), link::FrameKind::kHello);
  EXPECT_FALSE(half.hear());
  EXPECT_THAT(log_.lines(),
              ElementsAre(HasSubstr("not all of its 2 connections came within 30 ms")));
}

TEST_F(EndpointTest, APeerMayCallAndSendBeforeItIsAwaited) {
  auto zero = endpoint(0);
  RawPeer one(zero->port());
  one.say(link::hello_frame(identity(1), 0));
  ASSERT_EQ(one.hear(), link::FrameKind::kHello);
  one.say(data_frame({1, 2}, "early", 5));
  ASSERT_TRUE(zero->await_peer(1, {}, soon()));
  EXPECT_EQ(zero->receive(1, {1, 2}, soon())->payload.size(), 5u);
}

// The law is a lower bound whatever the machine does; pacer_test and ocean_test show equality.
TEST_F(EndpointTest, APacedLinkIsNeverFasterThanItsLaw) {
  auto zero = endpoint(0), one = endpoint(1);
  const link::LinkShape shape{.rate = 1_Gbps, .delay = {5'000'000}};
  link(*zero, 0, *one, 1, shape);
  const SimTime before = clock_.now();
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(zero->send(1, {1, i}, noise(1'000'000, i)));
  SimTime previous = before;
  for (uint64_t i = 0; i < 4; ++i) {
    const auto received = one->receive(0, {1, i}, soon());
    ASSERT_TRUE(received) << received.error().text();
    EXPECT_EQ(received->payload, noise(1'000'000, i));
    EXPECT_GE(received->sent_start, previous);
    // 1 MB at 125 B/us: 8 ms; and 5 ms of delay.
    EXPECT_GE(received->delivered, received->sent_start + SimDuration{13'000'000});
    EXPECT_GE(clock_.now(), received->delivered);
    previous = received->sent_start + SimDuration{8'000'000};
  }
}

TEST_F(EndpointTest, AnEarlyFinisherIsNotTakenForALostPeer) {
  auto zero = endpoint(0), one = endpoint(1);
  link(*zero, 0, *one, 1, {.rate = 10_Gbps, .delay = {10'000'000}});
  ASSERT_TRUE(zero->send(1, {1, 1}, noise(8'000'000, 1)));
  ASSERT_TRUE(zero->close(soon()));
  zero.reset();
  EXPECT_EQ(one->receive(0, {1, 1}, soon())->payload, noise(8'000'000, 1));
  const auto more = one->receive(0, {1, 2}, soon());
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ErrorCode::kFailed);
  EXPECT_EQ(more.error().message, "rank 0 finished and closed its link");
  EXPECT_FALSE(one->send(0, {1, 3}, {}));
  EXPECT_TRUE(one->close(soon()));
}

TEST_F(EndpointTest, AllMayCloseAtOnce) {
  auto zero = endpoint(0), one = endpoint(1), two = endpoint(2);
  link(*zero, 0, *one, 1);
  link(*zero, 0, *two, 2);
  link(*one, 1, *two, 2);
  std::vector<std::future<Status>> closing;
  for (Endpoint* e : {zero.get(), one.get(), two.get()})
    closing.push_back(std::async(std::launch::async, [this, e] { return e->close(soon()); }));
  for (auto& status : closing) EXPECT_TRUE(status.get());
  EXPECT_FALSE(zero->receive(1, {1, 1}, soon()));
}

TEST_F(EndpointTest, ALostPeerWakesItsReceiver) {
  auto zero = endpoint(0), one = endpoint(1);
  link(*zero, 0, *one, 1);
  auto waiting = std::async(std::launch::async, [&] { return zero->receive(1, {1, 1}, soon()); });
  one.reset();  // its sockets close, as by kill -9
  const auto received = waiting.get();
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, ErrorCode::kLostPeer);
  EXPECT_EQ(received.error().message, "lost rank 1: the connection ended without a goodbye");
  EXPECT_EQ(zero->receive(1, {9, 9}, soon()).error().code, ErrorCode::kLostPeer);  // and later too
  EXPECT_EQ(zero->send(1, {9, 9}, {}).error().code, ErrorCode::kLostPeer);
}

TEST_F(EndpointTest, ACutMidMessageLosesThePeerButNotWhatCameBefore) {
  auto zero = endpoint(0);
  RawPeer one(zero->port());
  introduce(one, *zero);
  one.say(data_frame({1, 1}, "whole", 5));
  const auto frame = data_frame({1, 2}, "half", 8);
  one.say(std::span(frame).first(frame.size() - 2));
  one.hang_up();
  EXPECT_EQ(zero->receive(1, {1, 2}, soon()).error().code, ErrorCode::kLostPeer);
  EXPECT_EQ(zero->receive(1, {1, 1}, soon())->payload.size(), 5u);
}

TEST_F(EndpointTest, ACorruptByteLosesThePeerButNotWhatCameBefore) {
  auto zero = endpoint(0);
  RawPeer one(zero->port());
  introduce(one, *zero);
  one.say(data_frame({1, 1}, "whole", 5));
  auto frame = data_frame({1, 2}, "wrong", 5);
  frame.back() ^= std::byte{1};
  one.say(frame);
  const auto received = zero->receive(1, {1, 2}, soon());
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, ErrorCode::kLostPeer);
  EXPECT_EQ(received.error().message,
            "lost rank 1: corrupt frame: its checksum does not match its bytes");
  EXPECT_EQ(zero->receive(1, {1, 1}, soon())->payload.size(), 5u);
  EXPECT_FALSE(one.hear());  // hung up on
}

TEST_F(EndpointTest, AnAnnouncedGiantLosesThePeerWithoutItsMemory) {
  auto zero = endpoint(0);
  RawPeer one(zero->port());
  introduce(one, *zero);
  one.say(data_frame({1, 1}, "tiny", uint64_t{1} << 50));
  EXPECT_THAT(zero->receive(1, {1, 1}, soon()).error().message, HasSubstr("the limit is 67108864"));
}

TEST_F(EndpointTest, AbortWakesEveryoneAndTellsThePeersWhy) {
  auto zero = endpoint(0), one = endpoint(1);
  link(*zero, 0, *one, 1);
  auto waiting = std::async(std::launch::async, [&] { return zero->receive(1, {1, 1}, soon()); });
  zero->abort({ErrorCode::kUnusable, "the disk is full"});
  EXPECT_EQ(waiting.get().error().message, "the disk is full");
  EXPECT_EQ(zero->receive(1, {1, 1}, soon()).error().code, ErrorCode::kUnusable);
  EXPECT_FALSE(zero->send(1, {1, 1}, {}));
  EXPECT_FALSE(zero->flush(soon()));
  const auto received = one->receive(0, {1, 1}, soon());
  EXPECT_EQ(received.error().code, ErrorCode::kLostPeer);
  EXPECT_EQ(received.error().message, "rank 0 gave up: the disk is full");
  EXPECT_FALSE(zero->close(soon()));
}

// A row of ranks 0 - 1 - 2: rank 2 dies, rank 1 gives up for it, and rank 0 hears who it was.
TEST_F(EndpointTest, ALossIsPassedOnUnderItsOwnName) {
  auto zero = endpoint(0), one = endpoint(1), two = endpoint(2);
  link(*zero, 0, *one, 1);
  link(*one, 1, *two, 2);
  two.reset();
  one->abort(one->receive(2, {1, 1}, soon()).error());
  const auto received = zero->receive(1, {1, 1}, soon());
  EXPECT_EQ(received.error().code, ErrorCode::kLostPeer);
  EXPECT_EQ(received.error().message, "lost rank 2: the connection ended without a goodbye");
}

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
  EXPECT_TRUE(link::is_token_refusal(status.error())) << status.error().text();
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
  expect_refused(hello, "the peer speaks protocol version 0, this program version 2");
}

TEST_F(EndpointTest, DataBeforeAHelloIsRefused) {
  expect_refused(data_frame({1, 1}, "hi", 2), "did not say hello first");
}

TEST_F(EndpointTest, ASlowStrangerIsShownTheDoor) {
  auto zero = endpoint(0, {30'000'000});
  RawPeer stranger(zero->port());
  const auto hello = link::hello_frame(identity(1), 0);
  stranger.say(std::span(hello).first(50));  // and never the rest
  EXPECT_EQ(stranger.refusal(), "it said no hello within 30 ms");
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("no hello within 30 ms")));
}

TEST_F(EndpointTest, StrangersAreLimitedInNumber) {
  auto zero = endpoint(0);
  std::vector<std::unique_ptr<RawPeer>> crowd;
  for (int i = 0; i < 257; ++i) crowd.push_back(std::make_unique<RawPeer>(zero->port()));
  EXPECT_FALSE(crowd.back()->hear() == link::FrameKind::kHello);
  EXPECT_THAT(log_.lines(), ElementsAre(HasSubstr("more than 256 handshakes at once")));
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
  EXPECT_TRUE(link::is_duplicate_refusal(status.error()));
  EXPECT_FALSE(link::is_token_refusal(status.error()));
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

TEST_F(EndpointTest, AMissedDeadlineIsAPlainFailure) {
  auto zero = endpoint(0), one = endpoint(1);
  link(*zero, 0, *one, 1);
  const auto received = zero->receive(1, {3, 7}, clock_.now());
  EXPECT_EQ(received.error().code, ErrorCode::kFailed);
  EXPECT_EQ(received.error().message, "rank 1 did not send iteration 3 tensor 7 in time");
}

TEST_F(EndpointTest, APeerThatReadsNothingDoesNotHoldUpTheEnd) {
  auto zero = endpoint(0);
  RawPeer one(zero->port());
  introduce(one, *zero);
  ASSERT_TRUE(zero->send(1, {1, 1}, link::Payload(60'000'000)));  // more than any socket buffer
  EXPECT_GT(zero->queued_bytes(), 0u);
  const SimTime at_once = clock_.now() + SimDuration{30'000'000};
  EXPECT_THAT(zero->flush(at_once).error().message, HasSubstr("rank 1 did not take the last"));
  EXPECT_THAT(zero->close(at_once).error().message, HasSubstr("rank 1 did not take the last"));
}

TEST_F(EndpointTest, ATakenPortIsNamed) {
  auto zero = endpoint(0);
  const auto again = Endpoint::create({.identity = identity(1), .port = zero->port()}, clock_);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kUnusable);
  EXPECT_EQ(again.error().message, fmt::format("port {} on 127.0.0.1 is taken", zero->port()));
  EXPECT_THAT(again.error().hint, HasSubstr("give another port"));
}

TEST_F(EndpointTest, PlainTcpStaysOnThisHost) {
  for (const std::string address : {"0.0.0.0", "10.1.2.3"}) {
    const auto made =
        Endpoint::create({.identity = identity(0), .listen_address = address}, clock_);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::kUnusable);
    EXPECT_THAT(made.error().message, HasSubstr("plain TCP stays on this host"));
  }
  auto zero = endpoint(0);
  EXPECT_THAT(zero->connect(1, "192.0.2.1", 80, {}, soon()).error().message,
              HasSubstr("plain TCP stays on this host"));
  EXPECT_THAT(zero->connect(1, "paris", 80, {}, soon()).error().message,
              HasSubstr("not an IPv4 address"));
}

// Inside emulated islands their network is allowed too, for listening and for dialing.
TEST_F(EndpointTest, PlainTcpStaysInTheIslandsNetwork) {
  Endpoint::Options options{.identity = identity(0), .listen_address = "10.1.2.3"};
  options.network = "10.0.0.0/7";
  EXPECT_THAT(Endpoint::create(options, clock_).error().text(), HasSubstr("private use"));
  options.network = "10.77.0.0/16";
  EXPECT_THAT(Endpoint::create(options, clock_).error().message,
              HasSubstr("10.1.2.3 is outside the islands' network 10.77.0.0/16"));
  options.listen_address = "127.0.0.1";
  const auto zero = Endpoint::create(options, clock_);
  ASSERT_TRUE(zero);
  EXPECT_THAT((*zero)->connect(1, "192.0.2.1", 80, {}, soon()).error().message,
              HasSubstr("outside the islands' network"));
  // Allowed, but nobody is there: that is another answer.
  const Status nobody = (*zero)->connect(1, "10.77.1.2", 80, {}, clock_.now());
  EXPECT_THAT(nobody.error().message, HasSubstr("did not answer at 10.77.1.2:80"));
}

using EndpointDeathTest = EndpointTest;

TEST_F(EndpointDeathTest, CallersKnowTheRanks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // each has an io thread
  const auto zero = endpoint(0);
  EXPECT_DEATH(static_cast<void>(zero->send(3, {1, 1}, noise(1, 1))), "there is no rank 3 of 3");
  EXPECT_DEATH(static_cast<void>(zero->receive(-1, {1, 1}, soon())), "there is no rank -1 of 3");
  EXPECT_DEATH(static_cast<void>(zero->receive_any({}, soon())), "a wait for nothing");
}

}  // namespace
}  // namespace tombolo::transport
