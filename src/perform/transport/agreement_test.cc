// One protocol, two worlds: what a seed makes two ends say over a simulated link, and the same over
// Endpoints and real sockets. Both run by a clock that moves only when told, so they must agree
// message by message: in order, in content, and in the instants of departure, to the nanosecond,
// whatever the machine does meanwhile. A busy machine may notice an arrival late, never early.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "base/random.h"
#include "perform/link/link.h"
#include "perform/transport/endpoint.h"
#include "support/seeds.h"

namespace tombolo::transport {
namespace {

// Moves when the test says so; every thread sees it.
class StillClock : public Clock {
 public:
  SimTime now() const override { return {now_.load()}; }
  void sleep_until(SimTime instant) override { now_ = std::max(now_.load(), instant.ns); }

 private:
  std::atomic<int64_t> now_ = 1'000'000'000;
};

constexpr std::array<link::Tag, 4> kTags = {{{1, 0}, {1, 1}, {2, 0}, {2, 1}}};

struct Sent {
  int32_t from = 0;
  link::Tag tag;
  link::Payload payload;
  link::Urgency urgency = 0;
};
// As the receiver sees it.
struct Heard {
  int32_t by = 0;
  link::Tag tag;
  link::Received message;
};

// Two Links, and connections that carry a frame at once.
class SimulatedWorld {
 public:
  SimulatedWorld(const link::LinkShape& shape, SimDuration delay, SimTime now)
      : connections_(shape.connections), delay_(delay), now_(now) {
    for (const int32_t rank : {0, 1}) {
      link::Link& link =
          links_.emplace_back(link::Link::Options{.self = {.rank = rank, .ranks = 2, .epoch = 1},
                                                  .peer = 1 - rank,
                                                  .message_max = 1 << 20});
      link.set_shape(shape);
      for (uint32_t i = 0; i < connections_; ++i) {
        const link::LinkPart part{.connection = i, .connections = connections_, .attempt = 1};
        EXPECT_TRUE(link.gathering().add({1 - rank, part}));
      }
    }
  }

  void advance(SimTime now) {
    now_ = now;
    settle();
  }
  void send(const Sent& sent) {
    links_[sent.from].outbox().push(sent.tag, sent.payload, sent.urgency, now_);
    settle();
  }
  // What the ends may take now.
  std::vector<Heard> receive() {
    std::vector<Heard> out;
    for (const int32_t rank : {0, 1}) {
      link::Inbox& inbox = links_[rank].inbox();
      for (const link::Tag& tag : kTags) {
        for (auto due = inbox.due(tag, delay_); due && *due <= now_; due = inbox.due(tag, delay_))
          out.push_back({rank, tag, inbox.take(tag, delay_)});
      }
    }
    return out;
  }
  uint64_t queued_bytes(int32_t rank) const { return links_[rank].outbox().queued_bytes(); }

 private:
  // Whatever may depart does, over one connection after the other.
  void settle() {
    for (const int32_t rank : {0, 1}) {
      while (step(rank, turn_++ % connections_)) {
      }
    }
  }
  bool step(int32_t rank, uint32_t connection) {
    link::Link::Pull next = links_[rank].pull(connection, now_);
    std::vector<std::byte> frame;
    if (auto* control = std::get_if<std::vector<std::byte>>(&next)) frame = std::move(*control);
    if (auto* segment = std::get_if<link::Outgoing>(&next))
      frame = link::encode_frame(segment->header, segment->payload);
    link::FrameDecoder decoder;
    const Status status = decoder.feed(
        frame, [&](const link::Frame& f) { return links_[1 - rank].accept(connection, f, now_); });
    EXPECT_TRUE(status) << status.error().text();
    return !frame.empty();
  }

  const uint32_t connections_;
  const SimDuration delay_;
  SimTime now_;
  uint32_t turn_ = 0;
  std::vector<link::Link> links_;
};

// Two Endpoints on loopback. Deadlines of their clock never come, because it stands still.
class RealWorld {
 public:
  explicit RealWorld(const link::LinkShape& shape) {
    for (const int32_t rank : {0, 1}) {
      auto made = Endpoint::create(
          {.identity = {.rank = rank, .ranks = 2, .epoch = 1, .token = {}}, .message_max = 1 << 20},
          clock_);
      EXPECT_TRUE(made) << made.error().text();
      ends_.push_back(std::move(*made));
    }
    auto dialed = std::async(std::launch::async, [&] {
      return ends_[1]->connect(0, "127.0.0.1", ends_[0]->port(), shape, kFar);
    });
    EXPECT_TRUE(ends_[0]->await_peer(1, shape, kFar));
    EXPECT_TRUE(dialed.get());
  }
  ~RealWorld() {
    auto other = std::async(std::launch::async, [&] { return ends_[1]->close(kFar); });
    EXPECT_TRUE(ends_[0]->close(kFar));
    EXPECT_TRUE(other.get());
  }

  SimTime now() const { return clock_.now(); }
  void advance(SimTime now) { clock_.sleep_until(now); }
  void send(const Sent& sent) {
    const Status status =
        ends_[sent.from]->send(1 - sent.from, sent.tag, sent.payload, sent.urgency);
    EXPECT_TRUE(status) << status.error().text();
  }
  link::Received receive(int32_t rank, link::Tag tag) {
    auto received = ends_[rank]->receive(1 - rank, tag, kFar);
    EXPECT_TRUE(received) << received.error().text();
    return received ? std::move(*received) : link::Received{};
  }
  // Until the kernel has taken what may depart now.
  void settle(int32_t rank, uint64_t queued) const {
    while (ends_[rank]->queued_bytes() != queued) std::this_thread::yield();
  }

 private:
  static constexpr SimTime kFar{int64_t{1} << 60};
  StillClock clock_;
  std::vector<std::unique_ptr<Endpoint>> ends_;
};

class Conversation {
 public:
  explicit Conversation(uint64_t seed) : random_(Random(seed).stream("conversation")) {
    shape_.connections = static_cast<uint32_t>(1 + random_.below(4));
    shape_.rate = BytesPerSecond{5e6 + random_.uniform() * 1e8};
    // Long enough for several messages to be on their way.
    shape_.delay = {10'000'000 + static_cast<int64_t>(random_.below(10'000'000))};
  }

  void run() {
    RealWorld real(shape_);
    SimulatedWorld simulated(shape_, shape_.delay, real.now());
    SimTime now = real.now();
    for (int step = 0; step < 160; ++step) {
      now = now + SimDuration{static_cast<int64_t>(random_.below(1'500'000))};
      simulated.advance(now);
      real.advance(now);
      agree(real, simulated);
      for (const Heard& heard : simulated.receive()) {
        compare(real, heard);
        if (random_.below(3) == 0) say(real, simulated, heard.by);  // an answer
      }
      if (step < 140) say(real, simulated, static_cast<int32_t>(random_.below(2)));
    }
    for (; said_ > heard_; now = now + SimDuration{3'000'000}) {
      simulated.advance(now);
      real.advance(now);
      agree(real, simulated);
      for (const Heard& heard : simulated.receive()) compare(real, heard);
    }
    EXPECT_GT(heard_, 0u);
  }

 private:
  // Never empty, because worlds settle by the bytes that wait.
  void say(RealWorld& real, SimulatedWorld& simulated, int32_t from) {
    Sent sent{
        from, kTags[random_.below(kTags.size())],
        link::Payload(1 + (random_.below(8) == 0 ? random_.below(60'000) : random_.below(2'000))),
        random_.below(3)};
    for (std::byte& byte : sent.payload) byte = static_cast<std::byte>(random_.next());
    simulated.send(sent);
    real.send(sent);
    agree(real, simulated);
    ++said_;
  }
  static void agree(const RealWorld& real, const SimulatedWorld& simulated) {
    for (const int32_t rank : {0, 1}) real.settle(rank, simulated.queued_bytes(rank));
  }
  void compare(RealWorld& real, const Heard& heard) {
    const link::Received received = real.receive(heard.by, heard.tag);
    EXPECT_EQ(received.payload, heard.message.payload) << link::text(heard.tag);
    EXPECT_EQ(received.sent_start.ns, heard.message.sent_start.ns) << link::text(heard.tag);
    EXPECT_GE(received.delivered.ns, heard.message.delivered.ns) << link::text(heard.tag);
    ++heard_;
  }

  Random random_;
  link::LinkShape shape_;
  uint64_t said_ = 0, heard_ = 0;
};

// ./test.sh --long has more to say.
TEST(Agreement, SimulatedAndRealLinksSayTheSame) {
  for (uint64_t seed = 0; seed < seeds(6, 1'000); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Conversation(seed).run();
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace tombolo::transport
