// Links that outlive their connections, over real sockets and a path that resets and swallows them.
// The limits are small so that the tests are fast; where a loss would be an error the grace is
// long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perform/transport/splice_listener.h"
#include "perform/trust/authority.h"
#include "support/tcp_proxy.h"
#include "support/test_endpoints.h"

namespace tombolo::transport {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

using link::noise;

constexpr SimDuration kMs{1'000'000};

// Up to 200 kB that differ from those of every other number.
link::Payload numbered(uint64_t number) {
  link::Payload out(1 + number * 7919 % 200'000);
  for (size_t i = 0; i < out.size(); i += 61) out[i] = static_cast<std::byte>(number + i / 61);
  return out;
}

class EndpointResumeTest : public EndpointTest {
 protected:
  Endpoint::Options options(int32_t rank, SimDuration grace = kMs * 60'000) {
    Endpoint::Options out{.identity = identity(rank),
                          .grace = grace,
                          .ping_every = kMs * 100,
                          .silence_max = kMs * 500,
                          .handshake_max = kMs * 1'000};
    out.identity.incarnation = 100 + static_cast<uint64_t>(rank);
    return out;
  }
  // Rank 0 listens, rank 1 dials it through the proxy.
  void set_up(const link::LinkShape& shape, SimDuration grace = kMs * 60'000) {
    zero_ = endpoint(options(0, grace));
    proxy_ = std::make_unique<TcpProxy>(zero_->port());
    one_ = endpoint(options(1, grace));
    link(*zero_, 0, *one_, 1, shape, proxy_->port());
  }
  static link::LinkStatistics statistics(Endpoint& endpoint) {
    const auto all = endpoint.statistics();
    return all.empty() ? link::LinkStatistics{} : all.front();
  }
  void until(const std::function<bool()>& true_now) {
    while (!true_now() && clock_.now() < deadline_)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_TRUE(true_now());
  }

  // Both say a lot to each other while `trouble` is made again and again; then all of it is there,
  // once and in its order, and both part well.
  void talk_through(const std::function<void(int)>& trouble, int times) {
    constexpr uint64_t kMessages = 60;
    std::atomic<uint64_t> received = 0;
    const auto talk = [&](Endpoint& self, int32_t other, uint64_t salt) {
      for (uint64_t i = 0; i < kMessages; ++i)
        ASSERT_TRUE(self.send(other, {i / 20, i % 3}, numbered(i + salt), i % 2));
    };
    const auto listen = [&](Endpoint& self, int32_t other, uint64_t salt) {
      for (uint64_t i = 0; i < kMessages; ++i, ++received) {
        const auto came = self.receive(other, {i / 20, i % 3}, deadline_);
        ASSERT_TRUE(came) << came.error().text();
        ASSERT_EQ(came->payload, numbered(i + salt)) << "message " << i;
      }
      EXPECT_FALSE(self.receive(other, {9, 9}, clock_.now() + kMs * 30)) << "and no more";
    };
    talk(*zero_, 1, 0);
    talk(*one_, 0, 1000);
    std::vector<std::future<void>> listeners;
    listeners.push_back(std::async(std::launch::async, [&] { listen(*zero_, 1, 1000); }));
    listeners.push_back(std::async(std::launch::async, [&] { listen(*one_, 0, 0); }));
    for (int i = 0; i < times; ++i) {
      const uint64_t passed = proxy_->passed();
      until([&] { return proxy_->passed() > passed + 300'000 || received == 2 * kMessages; });
      trouble(i);
    }
    for (auto& each : listeners) each.get();
    part();
  }
  void part() {
    auto closing = std::async(std::launch::async, [&] { return zero_->close(soon()); });
    const Status one = one_->close(soon());
    EXPECT_TRUE(one) << one.error().text();
    const Status zero = closing.get();
    EXPECT_TRUE(zero) << zero.error().text();
  }

  const SimTime deadline_ = soon();
  std::unique_ptr<TcpProxy> proxy_;
  std::unique_ptr<Endpoint> zero_, one_;
};

TEST_F(EndpointResumeTest, OneOfFourConnectionsIsReset) {
  set_up({.connections = 4});
  const auto is_back =
      Contains(AllOf(HasSubstr("of 4 to rank"), HasSubstr("is back; it was lost for")));
  talk_through(
      [&](int i) {
        proxy_->reset(static_cast<size_t>(i) % 4);
        // The others may carry everything before it is dialled again.
        if (i == 5) until([&] { return testing::Value(log_.lines(), is_back); });
      },
      6);
  EXPECT_THAT(log_.lines(), is_back);
}

TEST_F(EndpointResumeTest, AllConnectionsAreReset) {
  set_up({.connections = 3});
  talk_through([&](int) { proxy_->reset_all(); }, 5);
  EXPECT_GE(proxy_->accepted(), 6u);
}

TEST_F(EndpointResumeTest, PacedAndSlowLinksGoOnToo) {
  for (const link::LinkShape& shape : {link::LinkShape{.rate = 1_Gbps, .connections = 2},
                                       link::LinkShape{.slow_network = true, .connections = 4}}) {
    set_up(shape);
    talk_through([&](int i) { i % 2 == 0 ? proxy_->reset_all() : void(proxy_->reset(0)); }, 3);
  }
}

TEST_F(EndpointResumeTest, EncryptedConnectionsAreReset) {
  const auto now = trust::wall_time();
  const trust::Authority authority = *trust::Authority::create(now);
  Endpoint::Options zero = options(0), one = options(1);
  zero.credentials = *authority.issue("paris", trust::host_validity(now));
  one.credentials = *authority.issue("lima", trust::host_validity(now));
  zero_ = endpoint(zero);
  proxy_ = std::make_unique<TcpProxy>(zero_->port());
  one_ = endpoint(one);
  link(*zero_, 0, *one_, 1, {.connections = 2}, proxy_->port());
  talk_through([&](int i) { i % 2 == 0 ? void(proxy_->reset(1)) : proxy_->reset_all(); }, 4);
}

// Damage past TCP's checksum, in what is not retransmitted: the first bytes that either side sends. It
// does not count as an answer, neither to the first call nor to a redial.
TEST_F(EndpointResumeTest, ADamagedHandshakeIsDialedAgain) {
  const auto now = trust::wall_time();
  const trust::Authority authority = *trust::Authority::create(now);
  for (const bool encrypted : {false, true}) {
    for (const bool what_comes_back : {false, true}) {
      Endpoint::Options zero = options(0), one = options(1);
      zero.handshake_max = one.handshake_max = kMs * 30'000;
      if (encrypted) {
        zero.credentials = *authority.issue("paris", trust::host_validity(now));
        one.credentials = *authority.issue("lima", trust::host_validity(now));
      }
      zero_ = endpoint(zero);
      proxy_ = std::make_unique<TcpProxy>(zero_->port());
      one_ = endpoint(one);
      proxy_->damage(4, what_comes_back);
      link(*zero_, 0, *one_, 1, {.connections = 2}, proxy_->port());
      EXPECT_GE(proxy_->accepted(), 4u);
      proxy_->damage(4, what_comes_back);
      proxy_->reset_all();
      ASSERT_TRUE(one_->send(0, {1, 1}, noise(1000, 1)));
      const auto came = zero_->receive(1, {1, 1}, soon());
      ASSERT_TRUE(came) << came.error().text();
      part();
    }
  }
}

// Two ranks that can only make outgoing connections: both redial the SpliceListener.
TEST_F(EndpointResumeTest, ASplicedLinkGoesOn) {
  const auto listener = *SpliceListener::open({.token = link::kToken, .ranks = 3});
  proxy_ = std::make_unique<TcpProxy>(listener->port());
  zero_ = endpoint(options(0));
  one_ = endpoint(options(1));
  auto other = std::async(std::launch::async, [&] {
    return one_->meet(0, "127.0.0.1", proxy_->port(), {.connections = 2}, soon());
  });
  ASSERT_TRUE(zero_->meet(1, "127.0.0.1", proxy_->port(), {.connections = 2}, soon()));
  ASSERT_TRUE(other.get());
  talk_through([&](int i) { i % 2 == 0 ? void(proxy_->reset(0)) : proxy_->reset_all(); }, 3);
}

// Nothing reports that the path is gone. Both notice, and continue when it is back.
TEST_F(EndpointResumeTest, APathThatSwallowsEverythingForAWhile) {
  set_up({.connections = 2});
  proxy_->swallow(true);
  ASSERT_TRUE(one_->send(0, {1, 1}, noise(1'000'000, 1)));
  until([&] { return statistics(*zero_).losses >= 2 && statistics(*one_).losses >= 2; });
  EXPECT_GE(statistics(*zero_).silence.value, 0.5);
  EXPECT_TRUE(statistics(*one_).up);
  proxy_->swallow(false);
  const auto came = zero_->receive(1, {1, 1}, soon());
  ASSERT_TRUE(came) << came.error().text();
  EXPECT_EQ(came->payload, noise(1'000'000, 1));
  EXPECT_THAT(log_.lines(), Contains(HasSubstr("nothing came for 500 ms")));
  part();
}

TEST_F(EndpointResumeTest, APathThatSwallowsEverythingForLongerThanTheGrace) {
  set_up({.connections = 2}, kMs * 700);
  proxy_->swallow(true);
  const auto zero = zero_->receive(1, {1, 1}, soon());
  const auto one = one_->receive(0, {1, 1}, soon());
  for (const auto& [error, rank] : {std::pair(zero.error(), 1), std::pair(one.error(), 0)}) {
    EXPECT_EQ(error.code, ErrorCode::kLostPeer);
    EXPECT_THAT(error.message,
                HasSubstr(fmt::format("lost rank {}: it had no connection for ", rank)));
    EXPECT_THAT(error.message, HasSubstr("nothing came for 500 ms"));
  }
  EXPECT_EQ(one_->send(0, {1, 1}, {}).error().code, ErrorCode::kLostPeer);
}

// An idle link says enough to live.
TEST_F(EndpointResumeTest, PingsKeepAnIdleLinkAlive) {
  set_up({.connections = 2});
  const uint64_t passed = proxy_->passed();
  until([&] { return proxy_->passed() > passed + 40 * link::kHeaderBytes; });
  ASSERT_TRUE(one_->send(0, {1, 1}, noise(10, 1)));
  EXPECT_TRUE(zero_->receive(1, {1, 1}, soon()));
  until([&] { return statistics(*one_).unconfirmed_bytes == 0; });
  part();
}

TEST_F(EndpointResumeTest, AKilledPeerIsLostWhenTheGraceIsOver) {
  set_up({.connections = 2}, kMs * 300);
  one_.reset();
  const auto received = zero_->receive(1, {1, 1}, soon());
  EXPECT_THAT(received.error().message, HasSubstr("lost rank 1: it had no connection for 3"));
}

// As between a launcher and its ranks: a process that ended is known soon, and a path may be cut for
// much longer than that, in which neither side hangs up.
TEST_F(EndpointResumeTest, ACutPathIsNoEnd) {
  const auto with_end = [&](int32_t rank) {
    Endpoint::Options out = options(rank);
    out.ended_max = kMs * 300;
    return out;
  };
  zero_ = endpoint(with_end(0));
  proxy_ = std::make_unique<TcpProxy>(zero_->port());
  one_ = endpoint(with_end(1));
  link(*zero_, 0, *one_, 1, {}, proxy_->port());
  for (int cut = 0; cut < 3; ++cut) {
    const uint64_t zero_lost = statistics(*zero_).losses, one_lost = statistics(*one_).losses;
    proxy_->swallow(true);
    ASSERT_TRUE(one_->send(0, {1, 1}, noise(1000, 1)));
    ASSERT_TRUE(zero_->send(1, {1, 1}, noise(1000, 2)));
    until([&] {
      return statistics(*zero_).losses > zero_lost && statistics(*one_).losses > one_lost;
    });
    // Longer than the end of a process takes to be believed.
    EXPECT_FALSE(zero_->receive(1, {1, 1}, clock_.now() + kMs * 600));
    proxy_->swallow(false);
    const auto at_zero = zero_->receive(1, {1, 1}, soon());
    ASSERT_TRUE(at_zero) << at_zero.error().text();
    const auto at_one = one_->receive(0, {1, 1}, soon());
    ASSERT_TRUE(at_one) << at_one.error().text();
  }
  // A connection that lasted (recovery.h), and then ends with its process. On a busy machine one may fall silent
  // meanwhile, and its successor has to last in turn.
  for (uint64_t lost = ~uint64_t{0}; statistics(*zero_).losses != lost;) {
    lost = statistics(*zero_).losses;
    EXPECT_FALSE(zero_->receive(1, {1, 1}, clock_.now() + kMs * 2'100));
  }
  one_.reset();
  const auto ended = zero_->receive(1, {1, 1}, soon());
  EXPECT_THAT(ended.error().message, HasSubstr("lost rank 1: it had no connection for 3"));
}

// One that is stopped for a while, as by SIGSTOP, hears nothing and says nothing. It did not hang
// up, and is hung up on only when it says something again; then it calls at once.
TEST_F(EndpointResumeTest, ASilentConnectionIsHungUpOnWhenItSpeaks) {
  Endpoint::Options listener = options(0);
  listener.ended_max = kMs * 300;
  zero_ = endpoint(listener);
  RawPeer one(zero_->port());
  one.say(link::hello_frame(identity(1), 0, {.attempt = 1}, {.grace = kMs * 60'000}));
  EXPECT_EQ(one.hear(), link::FrameKind::kHello);
  ASSERT_TRUE(zero_->await_peer(1, {}, soon()));
  until([&] { return statistics(*zero_).losses == 1; });
  EXPECT_FALSE(zero_->receive(1, {1, 1}, clock_.now() + kMs * 600));
  one.say(link::ping_frame(identity(1)));
  until([&] { return one.hung_up(); });
  RawPeer again(zero_->port());
  again.say(link::hello_frame(identity(1), 0, {.attempt = 1, .round = 1}, {.grace = kMs * 60'000}));
  EXPECT_EQ(again.hear(), link::FrameKind::kHello);
  again.say(data_frame({1, 1}, "again", 5));
  const auto came = zero_->receive(1, {1, 1}, soon());
  EXPECT_TRUE(came) << came.error().text();
}

// As where the length of a frame changed on the way: bytes come, and it is never whole. It says so only
// after six times the longest silence, in which frames of slow networks come.
TEST_F(EndpointResumeTest, AConnectionWhoseFrameNeverEndsIsHungUpOn) {
  zero_ = endpoint(options(0));
  RawPeer one(zero_->port());
  one.say(link::hello_frame(identity(1), 0, {.attempt = 1}, {.grace = kMs * 60'000}));
  EXPECT_EQ(one.hear(), link::FrameKind::kHello);
  ASSERT_TRUE(zero_->await_peer(1, {}, soon()));
  const auto frame = data_frame({1, 1}, std::string(200'000, 'x'), 200'000);
  size_t sent = 100;
  one.say(std::span(frame).first(sent));
  until([&] {
    if (sent < frame.size() && !one.hung_up()) one.say(std::span(frame).subspan(sent++, 1));
    return one.hung_up();
  });
  EXPECT_LT(sent, frame.size());
}

// One side alone cannot resume.
TEST_F(EndpointResumeTest, WithoutAGraceOnBothSidesALostConnectionIsALostLink) {
  zero_ = endpoint(options(0));
  proxy_ = std::make_unique<TcpProxy>(zero_->port());
  one_ = endpoint(options(1, {}));
  link(*zero_, 0, *one_, 1, {.connections = 2}, proxy_->port());
  proxy_->reset(0);
  EXPECT_THAT(zero_->receive(1, {1, 1}, soon()).error().message, HasSubstr("lost rank 1: "));
  EXPECT_THAT(one_->receive(0, {1, 1}, soon()).error().message, HasSubstr("lost rank 0: "));
}

TEST_F(EndpointResumeTest, WhatWasSentBeforeTheEndArrivesInSpiteOfAReset) {
  set_up({.connections = 2});
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(one_->send(0, {1, i}, noise(200'000, i)));
  auto closing = std::async(std::launch::async, [&] { return one_->close(soon()); });
  proxy_->reset_all();
  for (uint64_t i = 0; i < 20; ++i)
    EXPECT_EQ(zero_->receive(1, {1, i}, soon())->payload, noise(200'000, i));
  const Status closed = closing.get();
  EXPECT_TRUE(closed) << closed.error().text();
  EXPECT_EQ(zero_->receive(1, {2, 0}, soon()).error().message,
            "rank 1 finished and closed its link");
}

TEST_F(EndpointResumeTest, WhoGivesUpIsNotWaitedFor) {
  set_up({.connections = 2});
  zero_->abort({ErrorCode::kUnusable, "the disk is full"});
  EXPECT_EQ(one_->receive(0, {1, 1}, soon()).error().message, "rank 0 gave up: the disk is full");
}

// --- Another process, another epoch -------------------------------------------------------------

// We were suspended, and answer a call that was given up meanwhile before the one that is there.
TEST_F(EndpointResumeTest, WhoHungUpWithoutAWordMayCallAnew) {
  zero_ = endpoint(options(0));
  zero_->welcome_all({1, 1});
  const link::Terms terms{.grace = kMs * 60'000};
  std::optional<RawPeer> first(std::in_place, zero_->port());
  first->say(link::hello_frame(identity(1), 0, {.attempt = 1}, terms));
  EXPECT_EQ(first->hear(), link::FrameKind::kHello);
  EXPECT_TRUE(std::holds_alternative<Endpoint::Up>(zero_->next(soon())->what));
  {
    RawPeer second(zero_->port());
    second.say(link::hello_frame(identity(1), 0, {.attempt = 2}, terms));
    EXPECT_EQ(second.hear(), link::FrameKind::kFailure) << "the first is there";
  }
  first.reset();
  RawPeer again(zero_->port());
  again.say(link::hello_frame(identity(1), 0, {.attempt = 3}, terms));
  EXPECT_EQ(again.hear(), link::FrameKind::kHello);
  again.say(data_frame({1, 1}, "again", 5));
  const auto news = zero_->next(soon());
  ASSERT_TRUE(news) << news.error().text();
  EXPECT_TRUE(std::holds_alternative<link::Received>(news->what));
}

// The caller logs it, not the rank that was called.
TEST_F(EndpointResumeTest, ACallThatWasGivenUpIsClosedWithoutALine) {
  std::promise<void> busy, released;
  Log log;
  Endpoint::Options slow = options(0);
  slow.log = [&](const std::string& line) {  // the thread that answers calls is kept here
    log.add(line);
    if (log.lines().size() > 1) return;
    busy.set_value();
    released.get_future().wait();
  };
  auto made = Endpoint::create(std::move(slow), clock_);
  ASSERT_TRUE(made) << made.error().text();
  zero_ = std::move(*made);
  RawPeer stranger(zero_->port());
  stranger.say("GET / HTTP/1.1\r\n\r\n");
  busy.get_future().wait();
  const link::Terms terms{.grace = kMs * 60'000};
  {
    RawPeer first(zero_->port());
    first.say(link::hello_frame(identity(1), 0, {.attempt = 1}, terms));
  }
  RawPeer second(zero_->port());
  second.say(link::hello_frame(identity(1), 0, {.attempt = 2}, terms));
  released.set_value();
  EXPECT_EQ(second.hear(), link::FrameKind::kHello);
  EXPECT_THAT(log.lines(), testing::ElementsAre(HasSubstr("not a Tombolo connection")));
  zero_.reset();  // logs to what ends here
}

// It may hold something, and its process may come back.
TEST_F(EndpointResumeTest, WhoSaidSomethingIsWaitedForWhoeverCalls) {
  zero_ = endpoint(options(0));
  zero_->welcome_all({1, 1});
  const link::Terms terms{.grace = kMs * 60'000};
  {
    RawPeer first(zero_->port());
    first.say(link::hello_frame(identity(1), 0, {.attempt = 1}, terms));
    EXPECT_EQ(first.hear(), link::FrameKind::kHello);
    first.say(data_frame({1, 1}, "first", 5));
    EXPECT_TRUE(std::holds_alternative<Endpoint::Up>(zero_->next(soon())->what));
    EXPECT_TRUE(std::holds_alternative<link::Received>(zero_->next(soon())->what));
  }
  RawPeer second(zero_->port());
  second.say(link::hello_frame(identity(1), 0, {.attempt = 2}, terms));
  EXPECT_EQ(second.hear(), link::FrameKind::kFailure);
}

TEST_F(EndpointResumeTest, ACallerThatWasStartedAgainIsNamedAtOnce) {
  set_up({});
  auto waiting = std::async(std::launch::async, [&] { return zero_->receive(1, {1, 1}, soon()); });
  Endpoint::Options again = options(1);
  again.identity.incarnation = 999;
  const auto successor = endpoint(again);
  EXPECT_FALSE(successor->connect(0, "127.0.0.1", zero_->port(), {}, soon()));
  EXPECT_EQ(waiting.get().error().message, "lost rank 1: it was started again");
}

TEST_F(EndpointResumeTest, AListenerThatWasStartedAgainIsNamedAtOnce) {
  set_up({.connections = 2});
  Endpoint::Options again = options(0);
  again.identity.incarnation = 999;
  const auto successor = endpoint(again);
  proxy_->lead_to(successor->port());
  zero_.reset();
  EXPECT_EQ(one_->receive(0, {1, 1}, soon()).error().message, "lost rank 0: it was started again");
}

// Of an earlier epoch, and an older process of this one: neither ends the link.
TEST_F(EndpointResumeTest, AZombieIsRefusedAndTheLinkGoesOn) {
  set_up({});
  link::Identity zombie = identity(1);
  zombie.epoch = 0;
  zombie.incarnation = 101;
  {
    RawPeer peer(zero_->port());
    peer.say(link::hello_frame(zombie, 0, {.attempt = 1, .round = 1}, {.grace = kMs * 1'000}));
    EXPECT_EQ(peer.refusal(), "it is in membership epoch 0, this rank in 1");
  }
  zombie.epoch = 1;
  zombie.incarnation = 5;
  {
    RawPeer peer(zero_->port());
    peer.say(link::hello_frame(zombie, 0, {.attempt = 1, .round = 1}, {.grace = kMs * 1'000}));
    EXPECT_EQ(peer.refusal(), "another process has been rank 1 since");
  }
  ASSERT_TRUE(one_->send(0, {1, 1}, noise(100, 1)));
  EXPECT_EQ(zero_->receive(1, {1, 1}, soon())->payload, noise(100, 1));
}

TEST_F(EndpointResumeTest, AFrameOfAnotherEpochEndsTheLink) {
  zero_ = endpoint(options(0));
  RawPeer one(zero_->port());
  one.say(link::hello_frame(identity(1), 0, {.attempt = 1}, {.grace = kMs * 1'000}));
  EXPECT_EQ(one.hear(), link::FrameKind::kHello);
  ASSERT_TRUE(zero_->await_peer(1, {}, soon()));
  link::Identity zombie = identity(1);
  zombie.epoch = 0;
  one.say(link::receipt_frame(zombie, 0));
  EXPECT_EQ(zero_->receive(1, {1, 1}, soon()).error().message,
            "lost rank 1: a frame of membership epoch 0 in epoch 1");
}

// What a lying peer confirms or repeats.
TEST_F(EndpointResumeTest, ReceiptsForWhatWasNeverSentEndTheLink) {
  zero_ = endpoint(options(0));
  RawPeer one(zero_->port());
  one.say(link::hello_frame(identity(1), 0, {.attempt = 1}, {.grace = kMs * 1'000}));
  EXPECT_EQ(one.hear(), link::FrameKind::kHello);
  ASSERT_TRUE(zero_->await_peer(1, {}, soon()));
  one.say(data_frame({1, 1}, "twice", 5));
  one.say(data_frame({1, 1}, "twice", 5));
  one.say(link::receipt_frame(identity(1), 0, 7));
  EXPECT_EQ(zero_->receive(1, {1, 1}, soon())->payload.size(), 5u);
  EXPECT_THAT(zero_->receive(1, {1, 1}, soon()).error().message,
              HasSubstr("lost rank 1: a receipt for segment 7"));
}

}  // namespace
}  // namespace tombolo::transport
