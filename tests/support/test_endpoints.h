// Endpoints over loopback for tests, and peers that speak the wire format by hand.
#pragma once

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
#include "support/test_bytes.h"

namespace tombolo::transport {

// A data frame of rank 1, in epoch 1.
inline std::vector<std::byte> data_frame(link::Tag tag, std::string_view text, uint64_t total) {
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
        cause_ = (*frame)->header.tag;
        return (*frame)->header.kind;
      }
      const auto space = decoder_.space();
      const ssize_t got = recv(fd_, space.data(), space.size(), 0);
      if (got <= 0) return std::nullopt;
      decoder_.commit(static_cast<size_t>(got));
    }
  }

  // Whether the other side did; reads what came before. Does not wait.
  bool hung_up() {
    std::byte some[256];
    ssize_t got = 0;
    while ((got = recv(fd_, some, sizeof some, MSG_DONTWAIT)) > 0) continue;
    return got == 0 || errno != EAGAIN;
  }

  // Of the last failure frame.
  ErrorCause cause() const { return static_cast<ErrorCause>(cause_); }
  // Hears the failure frame and the end after it.
  std::string refusal() {
    std::string text;
    if (hear(&text) != link::FrameKind::kFailure) return "no failure frame";
    if (hear()) return "the connection goes on";
    return text;
  }

 private:
  int fd_;
  uint64_t cause_ = 0;
  link::FrameDecoder decoder_{link::kUnauthenticatedPayloadMax};
};

// Three ranks on this machine. Deadlines are generous and only reached by a failure.
class EndpointTest : public testing::Test {
 protected:
  SimTime soon() const { return clock_.now() + SimDuration{60'000'000'000}; }

  link::Identity identity(int32_t rank, int32_t ranks = 3) const {
    return {.rank = rank, .ranks = ranks, .epoch = 1, .token = link::kToken};
  }
  std::unique_ptr<Endpoint> endpoint(int32_t rank, SimDuration handshake_max = {60'000'000'000}) {
    return endpoint({.identity = identity(rank), .handshake_max = handshake_max});
  }
  std::unique_ptr<Endpoint> endpoint(Endpoint::Options options) {
    options.message_max = 64 << 20;
    options.log = [this](const std::string& line) { log_.add(line); };
    auto made = Endpoint::create(std::move(options), clock_);
    EXPECT_TRUE(made) << made.error().text();
    return std::move(*made);
  }
  void link(Endpoint& a, int32_t rank_a, Endpoint& b, int32_t rank_b,
            const link::LinkShape& shape = {}, uint16_t port = 0) {
    auto dialed = std::async(std::launch::async, [&] {
      return b.connect(rank_a, "127.0.0.1", port ? port : a.port(), shape, soon());
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
      EXPECT_THAT(stranger.refusal(), testing::HasSubstr(why));
    }
    EXPECT_THAT(log_.lines(), testing::ElementsAre(testing::HasSubstr(why)));
    EXPECT_THAT(log_.lines(),
                testing::ElementsAre(testing::HasSubstr("refused a connection from 127.0.0.1:")));
    EXPECT_THAT(log_.lines()[0], testing::Not(testing::HasSubstr(link::kToken.hex())));
    auto one = endpoint(1);
    link(*zero, 0, *one, 1);
  }

  SystemClock clock_;
  Log log_;
};

}  // namespace tombolo::transport
