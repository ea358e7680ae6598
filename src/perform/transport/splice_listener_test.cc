// Two Endpoints that can only make outgoing connections, and a SpliceListener between them, over real
// loopback sockets.
#include "perform/transport/splice_listener.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <mutex>

#include "base/random.h"
#include "perform/link/splice.h"
#include "perform/transport/endpoint.h"
#include "perform/trust/authority.h"
#include "support/test_bytes.h"

namespace tombolo::transport {
namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

using link::kToken;
using link::noise;
const link::Token kOther = *link::Token::parse("ffeeddccbbaa99887766554433221100");

// A connection that says bytes by hand and waits for the end.
class Caller {
 public:
  explicit Caller(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  }
  ~Caller() { ::close(fd_); }
  void say(std::span<const std::byte> bytes) {
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  }
  void stop_talking() { shutdown(fd_, SHUT_WR); }
  // One byte, or nothing at the end.
  std::optional<std::byte> hear() {
    std::byte one{};
    return recv(fd_, &one, 1, 0) == 1 ? std::optional(one) : std::nullopt;
  }

 private:
  int fd_;
};

class SpliceListenerTest : public testing::Test {
 protected:
  SimTime soon() const { return clock_.now() + SimDuration{60'000'000'000}; }
  std::unique_ptr<SpliceListener> listener(SimDuration handshake_max = {60'000'000'000}) {
    auto made = SpliceListener::open({.token = kToken,
                                      .ranks = 3,
                                      .handshake_max = handshake_max,
                                      .log = [this](const auto& line) {
                                        const std::lock_guard lock(mutex_);
                                        lines_.push_back(line);
                                      }});
    EXPECT_TRUE(made) << made.error().text();
    return std::move(*made);
  }
  std::unique_ptr<Endpoint> endpoint(int32_t rank, bool tls) {
    Endpoint::Options options{.identity = {.rank = rank, .ranks = 3, .epoch = 1, .token = kToken},
                              .handshake_max = {60'000'000'000}};
    if (tls)
      options.credentials =
          *authority_.issue(fmt::format("host-{}", rank), trust::host_validity(now_));
    auto made = Endpoint::create(std::move(options), clock_);
    EXPECT_TRUE(made) << made.error().text();
    return std::move(*made);
  }
  static void meet(Endpoint& a, Endpoint& b, uint16_t port, const link::LinkShape& shape,
                   SimTime until) {
    auto other =
        std::async(std::launch::async, [&] { return b.meet(0, "127.0.0.1", port, shape, until); });
    const Status one = a.meet(1, "127.0.0.1", port, shape, until);
    EXPECT_TRUE(one) << one.error().text();
    const Status two = other.get();
    EXPECT_TRUE(two) << two.error().text();
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

  SystemClock clock_;
  std::chrono::sys_seconds now_ = trust::wall_time();
  trust::Authority authority_ = *trust::Authority::create(now_);
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

class SplicedLink : public SpliceListenerTest,
                    public testing::WithParamInterface<std::pair<uint32_t, bool>> {};

TEST_P(SplicedLink, CarriesMessagesBothWaysBitByBit) {
  const auto [connections, tls] = GetParam();
  const auto listener = this->listener();
  const auto a = endpoint(0, tls), b = endpoint(1, tls);
  meet(*a, *b, listener->port(), {.connections = connections}, soon());
  const size_t sizes[] = {0, 1, 100'000, 3'000'000};
  for (uint64_t i = 0; i < std::size(sizes); ++i) {
    ASSERT_TRUE(a->send(1, {1, i}, noise(sizes[i], i)));
    ASSERT_TRUE(b->send(0, {2, i}, noise(sizes[i], 10 + i)));
  }
  for (uint64_t i = 0; i < std::size(sizes); ++i) {
    const auto there = b->receive(0, {1, i}, soon());
    ASSERT_TRUE(there) << there.error().text();
    EXPECT_EQ(there->payload, noise(sizes[i], i));
    const auto here = a->receive(1, {2, i}, soon());
    ASSERT_TRUE(here) << here.error().text();
    EXPECT_EQ(here->payload, noise(sizes[i], 10 + i));
  }
  for (const Endpoint* each : {a.get(), b.get()}) {
    const auto links = const_cast<Endpoint*>(each)->statistics();
    ASSERT_EQ(links.size(), 1u);
    EXPECT_EQ(links[0].through, "coordinator");
    EXPECT_EQ(links[0].connections.size(), connections);
  }
  auto last = std::async(std::launch::async, [&] { return b->close(soon()); });
  const Status first = a->close(soon());
  EXPECT_TRUE(first) << first.error().text();
  const Status second = last.get();
  EXPECT_TRUE(second) << second.error().text();
  EXPECT_THAT(lines(), ElementsAre());
}

// The urgent message, sent last, overtakes what is queued.
TEST_P(SplicedLink, TheUrgentOvertakes) {
  const auto [connections, tls] = GetParam();
  const auto listener = this->listener();
  const auto a = endpoint(0, tls), b = endpoint(1, tls);
  const link::Payload bulk = noise(2'000'000, 1);
  meet(*a, *b, listener->port(), {.rate = BytesPerSecond{10e6}, .connections = connections},
       soon());
  // 20 MB at 10 MB/s take 2 s.
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(a->send(1, {1, i}, link::Payload(bulk), 100));
  ASSERT_TRUE(a->send(1, {2, 0}, noise(1000, 99), 0));
  const std::vector<Endpoint::Awaited> wanted{{0, {1, 9}}, {0, {2, 0}}};
  const auto came = b->receive_any(wanted, soon());
  ASSERT_TRUE(came) << came.error().text();
  EXPECT_EQ(came->which, 1u);
  EXPECT_EQ(came->message.payload, noise(1000, 99));
}

INSTANTIATE_TEST_SUITE_P(All, SplicedLink,
                         testing::Values(std::pair{1u, false}, std::pair{4u, false},
                                         std::pair{1u, true}, std::pair{4u, true}));

TEST_F(SpliceListenerTest, ItsEndIsTheEndOfTheLinksThroughIt) {
  auto listener = this->listener();
  const auto a = endpoint(0, true), b = endpoint(1, true);
  meet(*a, *b, listener->port(), {.connections = 4}, soon());
  listener.reset();
  const auto here = a->receive(1, {1, 1}, soon());
  const auto there = b->receive(0, {1, 1}, soon());
  ASSERT_FALSE(here);
  ASSERT_FALSE(there);
  EXPECT_EQ(here.error().code, ErrorCode::kLostPeer);
  EXPECT_THAT(here.error().message, AnyOf(HasSubstr("lost rank 1: the connection ended without a "
                                                    "goodbye; it went through the coordinator"),
                                          HasSubstr("Connection reset by peer; it went through")));
  EXPECT_THAT(there.error().message, HasSubstr("lost rank 0"));
}

TEST_F(SpliceListenerTest, WhoShakesHandsHearsOfItsEnd) {
  auto listener = this->listener();
  const auto a = endpoint(0, false);
  Caller partner(listener->port());
  partner.say(link::encode_preface(kToken, {1, 0, 0}));
  const uint16_t port = listener->port();
  auto met =
      std::async(std::launch::async, [&] { return a->meet(1, "127.0.0.1", port, {}, soon()); });
  EXPECT_EQ(partner.hear(), link::kJoined);
  listener.reset();
  const Status status = met.get();
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("rank 1"));
}

TEST_F(SpliceListenerTest, AnEndIsPassedOnAndTheOtherDirectionGoesOn) {
  const auto listener = this->listener();
  Caller a(listener->port()), b(listener->port());
  a.say(link::encode_preface(kToken, {1, 2, 0}));
  b.say(link::encode_preface(kToken, {2, 1, 0}));
  EXPECT_EQ(a.hear(), link::kJoined);
  EXPECT_EQ(b.hear(), link::kJoined);
  a.say(std::vector<std::byte>{std::byte{7}});
  a.stop_talking();
  EXPECT_EQ(b.hear(), std::byte{7});
  EXPECT_EQ(b.hear(), std::nullopt);
  b.say(std::vector<std::byte>{std::byte{8}});
  EXPECT_EQ(a.hear(), std::byte{8});
  b.stop_talking();
  EXPECT_EQ(a.hear(), std::nullopt);
}

TEST_F(SpliceListenerTest, StrangersAreRefusedWithALine) {
  const auto listener = this->listener();
  Caller garbage(listener->port());
  garbage.say(noise(link::kPrefaceBytes, 1));
  EXPECT_EQ(garbage.hear(), std::nullopt);
  Caller foreign(listener->port());
  foreign.say(link::encode_preface(kOther, {1, 2, 0}));
  EXPECT_EQ(foreign.hear(), std::nullopt);
  Caller short_one(listener->port());
  short_one.say(noise(10, 1));
  short_one.stop_talking();
  EXPECT_EQ(short_one.hear(), std::nullopt);
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("it did not begin as a rank does"),
                                   HasSubstr("its job token differs"),
                                   HasSubstr("it hung up before it said whom it wants")));
}

TEST_F(SpliceListenerTest, TheSlowAreRefusedAndMembersMayWait) {
  const auto listener = this->listener({500'000'000});
  Caller member(listener->port());
  member.say(link::encode_preface(kToken, {1, 2, 0}));
  Caller slow(listener->port());
  slow.say(noise(10, 1));
  EXPECT_EQ(slow.hear(), std::nullopt);
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("it did not say whom it wants within 500 ms")));
  Caller partner(listener->port());
  partner.say(link::encode_preface(kToken, {2, 1, 0}));
  EXPECT_EQ(member.hear(), link::kJoined);
  EXPECT_EQ(partner.hear(), link::kJoined);
}

TEST_F(SpliceListenerTest, NobodyIsHeardOnAnAddressThatLeadsOutUnprotected) {
  const auto made =
      SpliceListener::open({.listen_address = "0.0.0.0", .token = kToken, .ranks = 2});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kUnusable);
}

using SpliceListenerDeathTest = SpliceListenerTest;

TEST_F(SpliceListenerDeathTest, ItJoinsTwoThatMaySpeak) {
  EXPECT_DEATH(static_cast<void>(SpliceListener::open({.ranks = 1})), "a splice for 1 ranks");
  EXPECT_DEATH(static_cast<void>(SpliceListener::open({.ranks = 2, .handshake_max = {}})),
               "who have 0 ns to say whom they want");
}

}  // namespace
}  // namespace tombolo::transport
