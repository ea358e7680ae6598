// Endpoints with certificates, and every kind of caller to refuse. As in endpoint_test.cc nothing
// is decided by how fast the machine is.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <mutex>

#include "base/random.h"
#include "perform/transport/endpoint.h"
#include "perform/trust/authority.h"
#include "perform/trust/secure_stream.h"
#include "support/test_bytes.h"

namespace tombolo::transport {
namespace {

using std::chrono::hours;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using trust::Credentials;
using trust::SecureContext;
using trust::SecureStream;

using link::kToken;
using link::noise;

// The socket of an unauthenticated caller, and TLS on it where it has any.
class Stranger {
 public:
  explicit Stranger(uint16_t port, std::shared_ptr<const SecureContext> context = nullptr)
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    if (context) stream_.emplace(context, SecureStream::Role::kDials);
  }
  ~Stranger() { hang_up(); }
  void hang_up() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

  // As far as the other side wants to.
  bool shake_hands() {
    while (true) {
      flush();
      if (stream_->ready()) return true;
      if (!read_some()) return false;
    }
  }
  void say_raw(std::span<const std::byte> bytes) {
    EXPECT_EQ(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL), ssize_t(bytes.size()));
  }
  void say(std::span<const std::byte> bytes) {
    stream_->seal(bytes);
    flush();
  }
  void say_end() {
    stream_->say_end();
    flush();
  }
  // The next frame, or nothing at the end of the stream; `text` is its payload.
  std::optional<link::FrameKind> hear(std::string* text = nullptr) {
    while (true) {
      const auto frame = decoder_.next();
      if (!frame) return std::nullopt;
      if (*frame) {
        if (text) *text = link::printable((*frame)->payload);
        return (*frame)->header.kind;
      }
      if (!read_some()) return std::nullopt;
    }
  }
  // Bytes until the other side hangs up.
  size_t hear_out() {
    std::array<std::byte, 1000> some{};
    size_t sum = 0;
    for (ssize_t got = 0; (got = recv(fd_, some.data(), some.size(), 0)) > 0;)
      sum += static_cast<size_t>(got);
    return sum;
  }
  bool heard_end() const { return stream_->heard_end(); }

 private:
  void flush() {
    std::vector<std::byte> wire;
    stream_->take(wire);
    if (!wire.empty()) ::send(fd_, wire.data(), wire.size(), MSG_NOSIGNAL);
  }
  bool read_some() {
    const auto space = stream_->space();
    const ssize_t got = recv(fd_, space.data(), space.size(), 0);
    if (got <= 0) return false;
    stream_->commit(static_cast<size_t>(got));
    while (true) {
      const auto opened = stream_->open(decoder_.space());
      if (!opened) {
        flush();  // what TLS says about it
        return false;
      }
      if (*opened == 0) return true;
      decoder_.commit(*opened);
    }
  }

  int fd_;
  std::optional<SecureStream> stream_;
  link::FrameDecoder decoder_;
};

class SecureEndpointTest : public testing::Test {
 protected:
  SimTime soon() const { return clock_.now() + SimDuration{60'000'000'000}; }
  link::Identity identity(int32_t rank) const {
    return {.rank = rank, .ranks = 3, .epoch = 1, .token = kToken};
  }
  Credentials credentials(const std::string& name) const {
    return *authority_.issue(name, trust::host_validity(now_));
  }
  std::unique_ptr<Endpoint> endpoint(int32_t rank, SimDuration handshake_max = {60'000'000'000}) {
    auto made = Endpoint::create({.identity = identity(rank),
                                  .credentials = credentials(fmt::format("host-{}", rank)),
                                  .message_max = 64 << 20,
                                  .handshake_max = handshake_max,
                                  .log =
                                      [this](const std::string& line) {
                                        const std::lock_guard lock(mutex_);
                                        lines_.push_back(line);
                                      }},
                                 clock_);
    EXPECT_TRUE(made) << made.error().text();
    return std::move(*made);
  }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
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
  void introduce(Stranger& peer, Endpoint& to) {
    ASSERT_TRUE(peer.shake_hands());
    peer.say(link::hello_frame(identity(1), 0));
    EXPECT_EQ(peer.hear(), link::FrameKind::kHello);
    EXPECT_TRUE(to.await_peer(1, {}, soon()));
  }

  // While the refused caller is connected a real peer gets in, and one line says why the caller did
  // not.
  void expect_line(Endpoint& zero, const testing::Matcher<std::string>& why) {
    EXPECT_THAT(lines(), ElementsAre(why));
    EXPECT_THAT(lines(), ElementsAre(HasSubstr("refused a connection from 127.0.0.1:")));
    EXPECT_THAT(lines(), ElementsAre(Not(HasSubstr(kToken.hex()))));
    auto one = endpoint(1);
    link(zero, 0, *one, 1);
    ASSERT_TRUE(one->send(0, {1, 1}, noise(1000, 1)));
    EXPECT_EQ(zero.receive(1, {1, 1}, soon())->payload, noise(1000, 1));
    EXPECT_EQ(lines().size(), 1u);
  }
  // A caller with these certificates is refused in the TLS handshake.
  void expect_no_handshake(const std::shared_ptr<const SecureContext>& context,
                           const std::string& why) {
    auto zero = endpoint(0);
    Stranger stranger(zero->port(), context);
    // In TLS 1.3 a dialer may think that all is well until it hears otherwise.
    if (stranger.shake_hands()) {
      EXPECT_FALSE(stranger.hear());
    }
    stranger.hear_out();
    expect_line(*zero, HasSubstr(why));
  }
  // A caller without TLS that sends `words`.
  void expect_no_tls(std::span<const std::byte> words, const std::string& why) {
    auto zero = endpoint(0);
    Stranger stranger(zero->port());
    stranger.say_raw(words);
    stranger.hear_out();
    expect_line(*zero, HasSubstr(why));
  }
  // A caller that passes the TLS handshake, and then sends `words`.
  void expect_refused(std::span<const std::byte> words, const std::string& why) {
    auto zero = endpoint(0);
    Stranger stranger(zero->port(), peer_context());
    ASSERT_TRUE(stranger.shake_hands());
    stranger.say(words);
    std::string text;
    EXPECT_EQ(stranger.hear(&text), link::FrameKind::kFailure);
    EXPECT_THAT(text, HasSubstr(why));
    EXPECT_FALSE(stranger.hear());
    EXPECT_TRUE(stranger.heard_end());
    expect_line(*zero, HasSubstr(why));
  }
  std::shared_ptr<const SecureContext> peer_context() const {
    return *SecureContext::create(credentials("stranger"));
  }

  SystemClock clock_;
  const trust::WallTime now_ = trust::wall_time();
  const trust::Authority authority_ = *trust::Authority::create(now_);
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

// --- Among ourselves ----------------------------------------------------------------------------

// Unpaced, paced and over a slow network; and closed with much of it still queued.
TEST_F(SecureEndpointTest, LinksKeepBytesAndOrderAndLoseNothingAtTheEnd) {
  const std::vector<link::LinkShape> shapes = {{},
                                               {.connections = 8},
                                               {.rate = 10_Gbps, .connections = 3},
                                               {.slow_network = true, .connections = 5}};
  for (const link::LinkShape& shape : shapes) {
    auto zero = endpoint(0), one = endpoint(1);
    link(*zero, 0, *one, 1, shape);
    for (uint64_t i = 0; i < 20; ++i) {
      ASSERT_TRUE(zero->send(1, {1, i % 3}, noise(i * 30'000, i), i % 2));
      ASSERT_TRUE(one->send(0, {1, 1}, noise(i * 1000, 50 + i)));
    }
    for (uint64_t i = 0; i < 20; ++i)
      EXPECT_EQ(zero->receive(1, {1, 1}, soon())->payload, noise(i * 1000, 50 + i));
    const Status closed = zero->close(soon());
    ASSERT_TRUE(closed) << closed.error().text();
    zero.reset();
    for (uint64_t i = 0; i < 20; ++i)
      EXPECT_EQ(one->receive(0, {1, i % 3}, soon())->payload, noise(i * 30'000, i));
    EXPECT_EQ(one->receive(0, {2, 0}, soon()).error().message,
              "rank 0 finished and closed its link");
    EXPECT_TRUE(one->close(soon()));
  }
  EXPECT_THAT(lines(), ElementsAre());
}

TEST_F(SecureEndpointTest, AllMayCloseAtOnce) {
  auto zero = endpoint(0), one = endpoint(1);
  link(*zero, 0, *one, 1, {.connections = 4});
  auto closing = std::async(std::launch::async, [&] { return one->close(soon()); });
  EXPECT_TRUE(zero->close(soon()));
  EXPECT_TRUE(closing.get());
}

TEST_F(SecureEndpointTest, AnUrgentMessageOvertakesWhatIsQueued) {
  auto zero = endpoint(0), one = endpoint(1);
  link(*zero, 0, *one, 1, {.rate = 1_Mbps, .connections = 2});
  ASSERT_TRUE(zero->send(1, {1, 1}, link::Payload(12'000'000), 9));
  ASSERT_TRUE(zero->send(1, {1, 2}, noise(1000, 2), 1));
  EXPECT_EQ(one->receive(0, {1, 2}, soon())->payload, noise(1000, 2));
  EXPECT_GT(zero->queued_bytes(), 11'000'000u);
}

TEST_F(SecureEndpointTest, LastWordsAreHeard) {
  auto zero = endpoint(0), one = endpoint(1);
  link(*zero, 0, *one, 1);
  zero->abort({ErrorCode::kUnusable, "the disk is full"});
  const auto received = one->receive(0, {1, 1}, soon());
  EXPECT_EQ(received.error().message, "rank 0 gave up: the disk is full");
  EXPECT_FALSE(zero->close(soon()));
}

// An attacker on the path can end a connection, but cannot say goodbye; nor does the end of TLS
// count as the goodbye of the rank.
TEST_F(SecureEndpointTest, AnEndWithoutAGoodbyeIsALoss) {
  for (const bool end_of_tls : {false, true}) {
    auto zero = endpoint(0);
    Stranger one(zero->port(), peer_context());
    introduce(one, *zero);
    if (end_of_tls) one.say_end();
    one.hang_up();
    const auto received = zero->receive(1, {1, 1}, soon());
    EXPECT_EQ(received.error().code, ErrorCode::kLostPeer);
    EXPECT_EQ(received.error().message, "lost rank 1: the connection ended without a goodbye");
  }
}

// This side has said its own goodbye, and only waits for the other to hang up: it must say so.
TEST_F(SecureEndpointTest, ACutAfterOurGoodbyeIsALossToo) {
  for (const bool cut : {false, true}) {
    auto zero = endpoint(0);
    Stranger one(zero->port(), peer_context());
    introduce(one, *zero);
    auto closing = std::async(std::launch::async, [&] { return zero->close(soon()); });
    EXPECT_EQ(one.hear(), link::FrameKind::kGoodbye);
    auto waiting = std::async(std::launch::async, [&] { return zero->receive(1, {1, 1}, soon()); });
    if (!cut) one.say_end();
    one.hang_up();
    static_cast<void>(closing.get());
    EXPECT_FALSE(waiting.get());
  }
}

TEST_F(SecureEndpointTest, AChangedByteLosesThePeer) {
  auto zero = endpoint(0);
  Stranger one(zero->port(), peer_context());
  introduce(one, *zero);
  // A record of 20 bytes that no holder of the keys has sealed.
  std::vector<std::byte> record(25, std::byte{7});
  const std::array<int, 5> head = {23, 3, 3, 0, 20};
  std::transform(head.begin(), head.end(), record.begin(),
                 [](int b) { return static_cast<std::byte>(b); });
  one.say_raw(record);
  const auto received = zero->receive(1, {1, 1}, soon());
  EXPECT_EQ(received.error().code, ErrorCode::kLostPeer);
  EXPECT_THAT(received.error().message, HasSubstr("its TLS is broken"));
}

// --- Callers without valid credentials ----------------------------------------------------------

TEST_F(SecureEndpointTest, AnExpiredCertificateIsRefused) {
  const Credentials old = *authority_.issue("lima", {now_ - hours(48), now_ - hours(24)});
  expect_no_handshake(*SecureContext::create(old), "its certificate, of \"lima\", expired on ");
}

TEST_F(SecureEndpointTest, ACertificateOfAnotherAuthorityIsRefused) {
  const trust::Authority other = *trust::Authority::create(now_);
  const Credentials foreign = *other.issue("host-1", trust::host_validity(now_));
  // This caller checks our certificate first and gives up, as an Endpoint would: see below.
  expect_no_handshake(*SecureContext::create(foreign), "it refused this host: unknown CA");
  lines_.clear();
  // One that believes us, but shows a foreign certificate.
  expect_no_handshake(
      *SecureContext::create({authority_.certificate(), foreign.certificate, foreign.key}),
      "its certificate is of another authority");
}

TEST_F(SecureEndpointTest, NoCertificateIsRefused) {
  const std::string authority = *trust::fingerprint_of(authority_.certificate());
  expect_no_handshake(*SecureContext::for_joiner(authority), "it has no certificate");
}

// A ClientHello of TLS 1.2, from its specification (RFC 5246, 7.4.1.2), with one cipher.
TEST_F(SecureEndpointTest, AnOldVersionOfTlsIsRefused) {
  std::vector<std::byte> hello;
  const auto add = [&](std::initializer_list<int> bytes) {
    for (const int b : bytes) hello.push_back(static_cast<std::byte>(b));
  };
  add({22, 3, 1, 0, 45});    // a record of 45 bytes:
  add({1, 0, 0, 41, 3, 3});  // ClientHello of 41 bytes, version 1.2
  hello.resize(hello.size() + 32);
  add({0, 0, 2, 0xc0, 0x2b, 1, 0});  // no session, ECDHE-ECDSA-AES128-GCM, no compression
  expect_no_tls(hello, "it speaks an older TLS than 1.3");
}

TEST_F(SecureEndpointTest, GarbageIsRefused) {
  expect_no_tls(noise(3000, 1), "TLS");
  lines_.clear();
  const std::string_view request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  expect_no_tls(std::as_bytes(std::span(request)), "it does not speak TLS 1.3");
}

TEST_F(SecureEndpointTest, ARankWithoutCredentialsIsRefused) {
  expect_no_tls(link::hello_frame(identity(1), 0), "it does not speak TLS 1.3");
}

TEST_F(SecureEndpointTest, AWrongTokenIsRefused) {
  link::Identity stranger = identity(1);
  stranger.token = *link::Token::parse("00112233445566778899aabbccddeefe");  // the last bit differs
  expect_refused(link::hello_frame(stranger, 0), "job token differs");
}

TEST_F(SecureEndpointTest, AnOldProtocolVersionIsRefused) {
  auto hello = link::hello_frame(identity(1), 0);
  hello[4] = std::byte{0};
  expect_refused(hello, "the peer speaks protocol version 0");
}

TEST_F(SecureEndpointTest, AnOversizedLengthIsRefused) {
  const link::Payload payload(100'000);
  const auto head = link::encode_header(
      {.kind = link::FrameKind::kHello, .sender = 1, .total = 100'000, .length = 100'000}, payload);
  expect_refused(head, "frame of 100000 bytes where at most 512 are allowed");
}

TEST_F(SecureEndpointTest, GarbageInsideOfTlsIsRefused) {
  expect_refused(noise(3000, 2), "not a Tombolo connection");
}

// In the handshake of TLS, before it, and after it: the deadline is one for all of them.
TEST_F(SecureEndpointTest, ASlowUnauthenticatedConnectionIsClosed) {
  for (const std::string where : {"before", "during", "after"}) {
    lines_.clear();
    auto zero = endpoint(0, {300'000'000});
    Stranger stranger(zero->port(), peer_context());
    const std::array<int, 3> some = {22, 3, 1};
    std::array<std::byte, 3> begin{};
    std::transform(some.begin(), some.end(), begin.begin(),
                   [](int b) { return static_cast<std::byte>(b); });
    if (where == "during") stranger.say_raw(begin);
    if (where == "after") {
      ASSERT_TRUE(stranger.shake_hands());
      const auto hello = link::hello_frame(identity(1), 0);
      stranger.say(std::span(hello).first(50));
    }
    stranger.hear_out();
    EXPECT_THAT(lines(), ElementsAre(HasSubstr("it said no hello within 300 ms"))) << where;
  }
}

TEST_F(SecureEndpointTest, TheOldestStrangerMakesRoom) {
  auto zero = endpoint(0);
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (int i = 0; i < 600; ++i) crowd.push_back(std::make_unique<Stranger>(zero->port()));
  crowd.front()->hear_out();
  EXPECT_THAT(lines(), testing::Contains(HasSubstr("too many handshakes at once")));
  crowd.clear();
}

TEST_F(SecureEndpointTest, ADialerLearnsWhyItIsRefused) {
  auto zero = endpoint(0);
  const auto dial = [&](const std::optional<Credentials>& papers) {
    auto one = *Endpoint::create({.identity = identity(1), .credentials = papers}, clock_);
    return one->connect(0, "127.0.0.1", zero->port(), {}, soon()).error().text();
  };
  const Credentials old = *authority_.issue("lima", {now_ - hours(48), now_ - hours(24)});
  EXPECT_THAT(dial(old), HasSubstr("it refused this host: certificate expired"));
  const trust::Authority other = *trust::Authority::create(now_);
  EXPECT_THAT(dial(*other.issue("lima", trust::host_validity(now_))),
              HasSubstr("its certificate is of another authority"));
  EXPECT_THAT(dial(std::nullopt), HasSubstr("no link to rank 0 at 127.0.0.1:"));
}

// With certificates other addresses are allowed; with plain TCP only by a word.
TEST_F(SecureEndpointTest, CredentialsOpenTheWayToOtherHosts) {
  Endpoint::Options options{.identity = identity(0), .listen_address = "0.0.0.0"};
  EXPECT_THAT(Endpoint::create(options, clock_).error().text(), HasSubstr("tombolo init"));
  options.credentials = credentials("paris");
  EXPECT_TRUE(Endpoint::create(options, clock_));
  options.credentials.reset();
  options.plain_tcp = true;
  EXPECT_TRUE(Endpoint::create(options, clock_));
}

}  // namespace
}  // namespace tombolo::transport
