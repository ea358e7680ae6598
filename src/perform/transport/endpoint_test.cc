// Endpoints over real loopback sockets, and what happens when a peer misbehaves. Deadlines are
// generous and only reached by a failure; nothing here is decided by how fast the machine is.
#include "perform/transport/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "support/test_endpoints.h"

namespace tombolo::transport {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using link::noise;

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

// --- Credit ------------------------------------------------------------------------------------

constexpr uint64_t kMiB = 1 << 20;

TEST_F(EndpointTest, AReceiverThatTakesNothingStopsTheSender) {
  auto zero = endpoint({.identity = identity(0), .inbox_max = kMiB}), one = endpoint(1);
  link(*zero, 0, *one, 1, {.connections = 2});
  for (uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(one->send(0, {1, i}, noise(kMiB / 4, i)));
  // Meanwhile a good deal goes the other way.
  for (uint64_t i = 0; i < 64; ++i) {
    ASSERT_TRUE(zero->send(1, {2, i}, noise(kMiB / 4, i)));
    ASSERT_TRUE(one->receive(0, {2, i}, soon()));
  }
  EXPECT_GE(one->queued_bytes(), 15 * kMiB);
  for (uint64_t i = 64; i-- > 0;) {  // the last one first
    const auto came = zero->receive(1, {1, i}, soon());
    ASSERT_TRUE(came) << came.error().text();
    EXPECT_EQ(came->payload, noise(kMiB / 4, i));
  }
}

// Each sends more than it may queue and the other one takes in, and only then looks at what came.
TEST_F(EndpointTest, TwoWhoSendFirstDoNotWaitForEachOther) {
  const auto options = [&](int32_t rank) {
    return Endpoint::Options{.identity = identity(rank), .inbox_max = kMiB, .outbox_max = kMiB};
  };
  auto zero = endpoint(options(0)), one = endpoint(options(1));
  link(*zero, 0, *one, 1);
  const auto talk = [&](Endpoint& self, int32_t other) {
    for (uint64_t i = 0; i < 32; ++i) {
      ASSERT_TRUE(self.send(other, {1, i}, noise(kMiB / 4, i)));
      EXPECT_LE(self.queued_bytes(), kMiB + kMiB / 4);
    }
    for (uint64_t i = 0; i < 32; ++i)
      EXPECT_EQ(self.receive(other, {1, i}, soon())->payload, noise(kMiB / 4, i));
  };
  auto others = std::async(std::launch::async, [&] { talk(*one, 0); });
  talk(*zero, 1);
  others.get();
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

// A caller that died leaves half a link; its successor, which calls again, gets a whole one.
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
            "lost rank 1: corrupt frame: its checksum does not match its bytes; it was damaged on "
            "the way, perhaps");
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
              HasSubstr("is no IPv4 or IPv6 address"));
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
  // Allowed, but no process listens there: that is another error.
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

// As a launcher listens: one caller, however many ranks there are.
TEST_F(EndpointTest, TellsTheNewsOfAllInTheOrderOfArrival) {
  auto hub = endpoint(2);
  const link::Tag tag{0, 1};
  auto early = endpoint(0);
  ASSERT_TRUE(early->connect(2, "127.0.0.1", hub->port(), {}, soon()));
  ASSERT_TRUE(early->send(2, tag, noise(10, 1)));
  hub->welcome_all(tag);
  auto late = endpoint(1);
  ASSERT_TRUE(late->connect(2, "127.0.0.1", hub->port(), {}, soon()));
  ASSERT_TRUE(late->send(2, {0, 2}, noise(10, 9)));  // not what is listened to
  ASSERT_TRUE(late->send(2, tag, noise(10, 2)));
  ASSERT_TRUE(late->send(2, tag, noise(10, 3)));
  ASSERT_TRUE(late->flush(soon()));
  std::map<int32_t, std::string> heard;  // u: up, m: a message, e: its end
  const auto listen_until = [&](int32_t rank, const std::string& all) {
    while (heard[rank] != all) {
      const auto news = hub->next(soon());
      ASSERT_TRUE(news) << news.error().text();
      heard[news->peer] += "ume"[news->what.index()];
      if (heard[1] == "um" && news->peer == 1 && news->what.index() == 1) {
        EXPECT_EQ(std::get<link::Received>(news->what).payload, noise(10, 2));
      }
    }
  };
  listen_until(1, "umm");
  ASSERT_TRUE(hub->send(1, tag, noise(10, 4)));
  EXPECT_EQ(late->receive(2, tag, soon())->payload, noise(10, 4));
  late.reset();
  listen_until(1, "umme");
  listen_until(0, "um");
  EXPECT_EQ(hub->next(clock_.now()).error().message, "there was no news in time");
  hub->abort({ErrorCode::kFailed, "it is over"});
  EXPECT_EQ(hub->next(soon()).error().message, "it is over");
}

}  // namespace
}  // namespace tombolo::transport
