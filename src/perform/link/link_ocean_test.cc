// Whole links over a simulated network: the code that runs over sockets, over connections that exist
// only in numbers. They have delays of their own, so segments overtake each other; they stall as
// TCP does after a loss; they are cut; and callers die in the middle of a handshake.
#include <gtest/gtest.h>

#include "perform/link/link.h"
#include "support/seeds.h"
#include "support/test_water.h"

namespace tombolo::link {
namespace {

struct Sent {
  Tag tag;
  Payload payload;
  Urgency urgency = 0;
};

// One end: the Link, its connections' decoders, and what the caller sent and received.
struct End {
  explicit End(Link::Options options) : link(std::move(options)) {}
  Link link;
  std::map<uint32_t, FrameDecoder> decoders;
  std::map<uint32_t, Water> out;
  std::map<uint32_t, bool> busy;  // a frame is departing
  std::vector<Sent> sent;
  std::map<Tag, std::vector<Payload>> received;
  std::optional<Error> lost;
  bool closed = false;
};

class LinkOcean {
 public:
  explicit LinkOcean(uint64_t seed) : random_(Random(seed).stream("link ocean")) {
    connections_ = static_cast<uint32_t>(1 + random_.below(6));
    for (const int32_t rank : {0, 1}) {
      ends_.emplace_back(Link::Options{.self = {.rank = rank, .ranks = 2, .epoch = 1},
                                       .peer = 1 - rank,
                                       .message_max = 1 << 20});
    }
  }

  void run() {
    shake_hands();
    set_out();
    const bool storm = random_.below(4) == 0;
    if (storm) agenda_.at(milliseconds_at(400), [this] { cut(); });
    int events = 0;
    while (agenda_.step()) ASSERT_LT(++events, 100'000) << "it does not end";
    for (End& end : ends_) check(end, storm && cut_);
  }

 private:
  SimTime milliseconds_at(double most) {
    return agenda_.now() + milliseconds(random_.uniform() * most);
  }
  End& other(const End& end) { return &end == &ends_[0] ? ends_[1] : ends_[0]; }

  // Rank 1 calls. Callers that die in the middle leave some of their hellos behind, and these mix
  // with those of the next attempt; the link must come up with exactly the last one's connections.
  void shake_hands() {
    Gathering& listener = ends_[0].link.gathering();
    std::vector<Caller> hellos;
    const uint64_t attempts = 1 + random_.below(3);
    for (uint64_t attempt = 1; attempt <= attempts; ++attempt) {
      const auto said =
          static_cast<uint32_t>(attempt == attempts ? connections_ : random_.below(connections_));
      for (uint32_t i = 0; i < said; ++i) {
        const Caller caller{1, {.connection = i, .connections = connections_, .attempt = attempt}};
        hellos.insert(hellos.begin() + static_cast<ptrdiff_t>(random_.below(hellos.size() + 1)),
                      caller);
      }
    }
    for (const Caller& hello : hellos) {
      const auto welcome = listener.add(hello);
      EXPECT_TRUE(welcome || hello.part.attempt < attempts) << welcome.error().text();
    }
    Gathering& dialer = ends_[1].link.gathering();
    dialer.expect(attempts, connections_);
    for (uint32_t i = 0; i < connections_; ++i) {
      EXPECT_TRUE(
          dialer.add({0, {.connection = i, .connections = connections_, .attempt = attempts}}));
    }
    EXPECT_TRUE(ends_[0].link.up() && ends_[1].link.up());
  }

  void set_out() {
    const double stalls = random_.below(2) == 0 ? 0 : 0.05;
    for (End& end : ends_) {
      for (uint32_t i = 0; i < connections_; ++i) {
        end.out[i] = {.rate = BytesPerSecond{1e5 + random_.uniform() * 3e6},
                      .delay = milliseconds(random_.uniform() * 80),
                      .stalls = stalls};
        end.decoders.try_emplace(i);
      }
      const uint64_t messages = random_.below(25);
      SimTime when;
      for (uint64_t i = 0; i < messages; ++i) {
        if (random_.below(2) == 0) when = when + milliseconds(random_.uniform() * 40);
        agenda_.at(when, [this, &end] { send(end); });
      }
      agenda_.at(when, [this, &end] {
        end.link.close();
        end.closed = true;
        pump(end);
      });
    }
  }

  // Few tags, so that they repeat; three urgencies.
  void send(End& end) {
    if (end.lost) return;
    Payload payload(random_.below(5) == 0 ? random_.below(3) : random_.below(30'000));
    for (size_t i = 0; i < payload.size(); i += 100) payload[i] = std::byte(random_.below(256));
    const Sent sent{{random_.below(2), random_.below(3)}, payload, random_.below(3)};
    end.link.outbox().set_segment_max(static_cast<uint32_t>(500 + random_.below(8'000)));
    end.link.outbox().push(sent.tag, payload, sent.urgency, agenda_.now());
    waiting_[&end].emplace(sent.urgency, payload.size());
    end.sent.push_back(sent);
    pump(end);
  }

  void pump(End& end) {
    for (uint32_t i = 0; i < connections_; ++i) pump(end, i);
  }

  // What a driver does: one frame at a time per connection, the next one when it has departed.
  void pump(End& end, uint32_t connection) {
    if (end.lost || end.busy[connection] || end.link.said_goodbye(connection)) return;
    const uint64_t tail = connection == slow_ ? 10'000 : 0;
    Link::Pull next = end.link.pull(connection, agenda_.now(), tail);
    std::vector<std::byte> frame;
    if (auto* control = std::get_if<std::vector<std::byte>>(&next)) {
      frame = std::move(*control);
    } else if (auto* segment = std::get_if<Outgoing>(&next)) {
      check_urgency(end, *segment, tail);
      frame = encode_frame(segment->header, segment->payload);
    } else {
      return;
    }
    end.busy[connection] = true;
    Water& water = end.out[connection];
    const SimTime arrival = water.arrival(agenda_.now(), frame.size(), random_);
    agenda_.at(water.free, [this, &end, connection] {
      end.busy[connection] = false;
      pump(end, connection);
    });
    agenda_.at(arrival, [this, &end, connection, frame = std::move(frame)] {
      if (!cut_) arrive(other(end), connection, frame);
    });
  }

  // No segment leaves while bytes of a more urgent message wait, unless the connection is slow.
  void check_urgency(End& end, const Outgoing& segment, uint64_t tail) {
    auto& waiting = waiting_[&end];
    const Urgency urgency = end.sent[segment.header.message - 1].urgency;
    if (tail == 0) {
      EXPECT_EQ(urgency, waiting.begin()->first);
    }
    if (segment.header.offset + segment.header.length == segment.header.total)
      waiting.erase(waiting.find(urgency));
  }

  void arrive(End& end, uint32_t connection, std::span<const std::byte> frame) {
    if (end.lost || end.link.finished()) return;
    const Status status = end.decoders.at(connection).feed(frame, [&](const Frame& f) {
      return end.link.accept(connection, f, agenda_.now());
    });
    ASSERT_TRUE(status) << status.error().text();
    for (uint64_t iteration = 0; iteration < 2; ++iteration) {
      for (uint64_t tensor = 0; tensor < 3; ++tensor) {
        const Tag tag{iteration, tensor};
        while (end.link.inbox().due(tag, {}))
          end.received[tag].push_back(end.link.inbox().take(tag, {}).payload);
      }
    }
    if (end.link.owes(connection, agenda_.now())) pump(end);
  }

  // A connection breaks: both ends lose the link, and what was on its way is gone.
  void cut() {
    if (ends_[0].link.finished() || ends_[1].link.finished()) return;
    cut_ = true;
    for (End& end : ends_) {
      end.lost = Error{ErrorCode::kLostPeer, "cut"};
      end.link.outbox().clear();
    }
  }

  // Every message once, whole, and in order among those of its tag; with failures (`storm`) a part.
  void check(End& end, bool storm) {
    std::map<Tag, std::vector<Payload>> expected;
    for (const Sent& sent : other(end).sent) expected[sent.tag].push_back(sent.payload);
    for (const auto& [tag, payloads] : end.received) {
      ASSERT_LE(payloads.size(), expected[tag].size());
      for (size_t i = 0; i < payloads.size(); ++i) EXPECT_EQ(payloads[i], expected[tag][i]);
    }
    if (storm) {
      EXPECT_FALSE(end.link.finished() && ends_[0].lost && ends_[1].lost);
      return;
    }
    EXPECT_EQ(end.received, expected);
    EXPECT_TRUE(end.link.finished());
    EXPECT_TRUE(end.link.outbox().empty());
    EXPECT_LE(end.link.outbox().remembered_tags(), 6u);
  }

  Random random_;
  Agenda agenda_;
  uint32_t connections_ = 1;
  const uint32_t slow_ = 3;  // where there are as many
  std::vector<End> ends_;
  std::map<End*, std::multimap<Urgency, size_t>> waiting_;
  bool cut_ = false;
};

// ./test.sh --long sails a longer way.
TEST(LinkOcean, EveryMessageComesOnceWholeAndTheUrgentFirst) {
  for (uint64_t seed = 0; seed < seeds(100, 1'000); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    LinkOcean(seed).run();
    if (testing::Test::HasFailure()) break;
  }
}

// --- Small stories ------------------------------------------------------------------------------

class LinkTest : public testing::Test {
 protected:
  LinkTest() {
    for (uint32_t i = 0; i < 2; ++i) {
      const LinkPart part{.connection = i, .connections = 2, .attempt = 1};
      EXPECT_TRUE(zero_.gathering().add({1, part}));
      EXPECT_TRUE(one_.gathering().add({0, part}));
    }
  }
  static Link::Options options(int32_t self) {
    return {
        .self = {.rank = self, .ranks = 2, .epoch = 1}, .peer = 1 - self, .message_max = 1 << 20};
  }
  // The next frame of zero's connection, as bytes.
  std::vector<std::byte> pull(uint32_t connection) {
    Link::Pull next = zero_.pull(connection, {});
    if (auto* control = std::get_if<std::vector<std::byte>>(&next)) return *control;
    const auto* segment = std::get_if<Outgoing>(&next);
    return segment ? encode_frame(segment->header, segment->payload) : std::vector<std::byte>{};
  }
  Status give(uint32_t connection, std::span<const std::byte> frame) {
    FrameDecoder decoder;
    return decoder.feed(frame, [&](const Frame& f) { return one_.accept(connection, f, {}); });
  }

  Link zero_{options(0)}, one_{options(1)};
};

// The goodbye overtakes the message on the other connection; only both together are the end.
TEST_F(LinkTest, AGoodbyeOnOneConnectionIsNotTheEnd) {
  zero_.outbox().push({1, 1}, Payload(10), 0, {});
  zero_.close();
  const auto data = pull(0), goodbye = pull(1), last = pull(0);
  ASSERT_TRUE(give(1, goodbye));
  EXPECT_FALSE(one_.finished());
  ASSERT_TRUE(give(0, data));
  ASSERT_TRUE(give(0, last));
  EXPECT_TRUE(one_.finished());
  EXPECT_TRUE(one_.inbox().due({1, 1}, {}));
}

TEST_F(LinkTest, AGoodbyeWithoutItsMessagesIsALoss) {
  zero_.outbox().push({1, 1}, Payload(10), 0, {});
  zero_.close();
  pull(0);
  ASSERT_TRUE(give(0, pull(0)));
  EXPECT_EQ(give(1, pull(1)).error().message, "its goodbye counts 1 messages, and 0 came whole");
  EXPECT_EQ(give(1, hello_frame({.rank = 0, .ranks = 2, .epoch = 1}, 1)).error().message,
            "it sent more after its goodbye");
}

// 300 bytes are urgent, 1000 are not; the tail is 400.
TEST_F(LinkTest, ASlowConnectionLeavesTheTailOfAnUrgentMessage) {
  zero_.outbox().set_segment_max(100);
  zero_.outbox().push({1, 1}, Payload(300), 0, {});
  zero_.outbox().push({1, 2}, Payload(1000), 1, {});
  const auto pulled = [&](uint32_t connection, uint64_t tail) {
    return std::get<Outgoing>(zero_.pull(connection, {}, tail)).header.message;
  };
  EXPECT_EQ(pulled(1, 400), 2u);
  EXPECT_EQ(pulled(0, 0), 1u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(pulled(1, 400), 2u);  // until 400 are left of this one, too
  EXPECT_EQ(pulled(1, 400), 1u);                              // nothing less urgent: it helps
}

// Tags are remembered until the receipt, so that memory does not grow with the run.
TEST_F(LinkTest, ReceiptsLetTheSenderForget) {
  for (uint64_t i = 0; i < 64; ++i) {
    EXPECT_FALSE(one_.owes(0, {}));
    zero_.outbox().push({1, i}, Payload(10), 0, {});
    ASSERT_TRUE(give(i % 2, pull(i % 2)));
  }
  EXPECT_EQ(zero_.outbox().remembered_tags(), 64u);
  ASSERT_TRUE(one_.owes(0, {}));
  const Link::Pull next = one_.pull(0, {});
  FrameDecoder decoder;
  ASSERT_TRUE(decoder.feed(std::get<std::vector<std::byte>>(next),
                           [&](const Frame& f) { return zero_.accept(0, f, {}); }));
  EXPECT_EQ(zero_.outbox().remembered_tags(), 0u);
  EXPECT_FALSE(one_.owes(0, {}));
  EXPECT_EQ(zero_.outbox().receipt(65).error().message, "a receipt for message 65 of 64");
}

// Windows of 2,000 bytes; of messages of 1,000, 256 are counted for each. The last one is awaited.
TEST_F(LinkTest, AnEndThatTakesNothingStopsTheOther) {
  Link::Options tight = options(1);
  tight.window = 2'000;
  Link one(tight);
  for (const uint32_t i : {0u, 1u})
    ASSERT_TRUE(one.gathering().add({0, {.connection = i, .connections = 2, .attempt = 1}}));
  zero_.set_their_window(2'000);
  for (uint64_t i = 1; i <= 5; ++i) zero_.outbox().push({1, i}, Payload(1'000), 0, {});
  FrameDecoder decoder;
  const auto pass = [&] {  // what went over, bytes
    uint64_t bytes = 0;
    for (auto frame = pull(0); !frame.empty(); frame = pull(0)) {
      const Status status = decoder.feed(frame, [&](const Frame& f) {
        bytes += f.header.length;
        return one.accept(0, f, {});
      });
      EXPECT_TRUE(status) << status.error().text();
    }
    return bytes;
  };
  const auto tell = [&] {
    ASSERT_TRUE(one.owes(0, {}));
    FrameDecoder decoder;
    const Link::Pull receipt = one.pull(0, {});
    ASSERT_TRUE(decoder.feed(std::get<std::vector<std::byte>>(receipt),
                             [&](const Frame& f) { return zero_.accept(0, f, {}); }));
    EXPECT_FALSE(one.owes_credit());
  };
  EXPECT_EQ(pass(), 2'000u - 2 * 256u);
  EXPECT_TRUE(zero_.outbox().held_back());
  EXPECT_FALSE(one.owes_credit()) << "nobody took anything";
  EXPECT_EQ(one.inbox().take({1, 1}, {}).payload.size(), 1'000u);
  tell();
  EXPECT_EQ(pass(), 1'256u - 256u) << "the rest of the second, and half of the third";
  one.begin_waiting();  // for the fifth
  for (int i = 0; i < 2; ++i) {
    tell();
    pass();
  }
  one.end_waiting();
  EXPECT_TRUE(one.inbox().due({1, 5}, {}));
  EXPECT_FALSE(zero_.outbox().held_back());
}

TEST_F(LinkTest, WhoSendsMoreThanItMayIsRefused) {
  Link::Options tight = options(1);
  tight.window = 1'500;
  tight.message_max = 5'000;
  Link one(tight);
  ASSERT_TRUE(one.gathering().add({0, {.connection = 0, .connections = 1, .attempt = 1}}));
  const auto send = [&](uint64_t number) {
    zero_.outbox().push({1, number}, Payload(1'000), 0, {});
    FrameDecoder decoder;
    return decoder.feed(pull(0), [&](const Frame& f) { return one.accept(0, f, {}); });
  };
  ASSERT_TRUE(send(1));
  EXPECT_EQ(send(2).error().message, "it sent 2512 bytes where 1500 were allowed");
}

// It floods an end that waits for something else.
TEST_F(LinkTest, WhatIsAwaitedComesBeforeALimit) {
  Link::Options tight = options(1);
  tight.window = 1'500;
  tight.message_max = 5'000;
  Link one(tight);
  ASSERT_TRUE(one.gathering().add({0, {.connection = 0, .connections = 1, .attempt = 1}}));
  one.begin_waiting();
  Status status;
  uint64_t number = 0;
  while (status && number < 100) {
    zero_.outbox().push({1, ++number}, Payload(1'000), 0, {});
    FrameDecoder decoder;
    status = decoder.feed(pull(0), [&](const Frame& f) { return one.accept(0, f, {}); });
    if (status && one.owes_credit()) one.pull(0, {});
  }
  EXPECT_EQ(number, 6u) << "5 x 1,256 bytes are less than 6,500";
  EXPECT_EQ(status.error().message,
            "7536 bytes of it lie here, and what is awaited is not among them");
}

// The listener is up with the last hello, and may send before the dialer heard the last answer.
TEST(ResumableLink, CountsWhatCameBeforeTheLastAnswer) {
  Link sender({.self = {.rank = 0, .ranks = 2, .epoch = 1}, .peer = 1, .message_max = 100});
  Link dialer({.self = {.rank = 1, .ranks = 2, .epoch = 1}, .peer = 0, .message_max = 100});
  dialer.gathering().expect(1, 2);
  const auto shake = [](Link& link, int32_t rank, uint32_t connection) {
    EXPECT_TRUE(
        link.gathering().add({rank, {.connection = connection, .connections = 2, .attempt = 1}}));
  };
  for (const uint32_t i : {0u, 1u}) shake(sender, 1, i);
  sender.make_resumable({});
  shake(dialer, 0, 0);
  sender.outbox().push({1, 1}, Payload(10), 0, {});
  const auto segment = std::get<Outgoing>(sender.pull(0, {}));
  FrameDecoder decoder;
  const auto give = [&](Link& to, const std::vector<std::byte>& bytes) {
    return decoder.feed(bytes, [&](const Frame& f) { return to.accept(0, f, {}); });
  };
  ASSERT_TRUE(give(dialer, encode_frame(segment.header, segment.payload)));
  shake(dialer, 0, 1);
  dialer.make_resumable({});
  const SimTime later = SimTime{} + milliseconds(20);
  ASSERT_TRUE(dialer.owes(0, later));
  ASSERT_TRUE(give(sender, std::get<std::vector<std::byte>>(dialer.pull(0, later))));
  EXPECT_TRUE(sender.delivered());
}

// The receipt was lost with its connection, and the other side parts.
TEST(ResumableLink, WhatAGoodbyeConfirmsDoesNotGoAgain) {
  std::vector<Link> ends;
  for (const int32_t rank : {0, 1}) {
    ends.emplace_back(Link::Options{
        .self = {.rank = rank, .ranks = 2, .epoch = 1}, .peer = 1 - rank, .message_max = 100});
    for (const uint32_t i : {0u, 1u})
      ASSERT_TRUE(ends[rank].gathering().add(
          {1 - rank, {.connection = i, .connections = 2, .attempt = 1}}));
    ends[rank].make_resumable({});
  }
  const auto give = [&](int to, uint32_t connection, const std::vector<std::byte>& bytes) {
    FrameDecoder decoder;
    return decoder.feed(bytes, [&](const Frame& f) { return ends[to].accept(connection, f, {}); });
  };
  for (const uint64_t number : {1, 2}) {
    ends[0].outbox().push({1, number}, Payload(10), 0, {});
    const auto segment = std::get<Outgoing>(ends[0].pull(0, {}));
    if (number == 1) {
      ASSERT_TRUE(give(1, 0, encode_frame(segment.header, segment.payload)));
    }
  }
  for (Link& end : ends) end.lose(0, {});
  EXPECT_EQ(ends[0].outbox().queued_bytes(), 20u);
  ends[1].close();
  ASSERT_TRUE(give(0, 1, std::get<std::vector<std::byte>>(ends[1].pull(1, {}))));
  EXPECT_EQ(ends[0].outbox().queued_bytes(), 10u) << "of the second it said nothing";
  EXPECT_FALSE(ends[0].outbox().all_there());
  const auto again = std::get<Outgoing>(ends[0].pull(1, {}));
  EXPECT_EQ(again.header.message, 2u);
  ASSERT_TRUE(ends[0].outbox().receipt(2));
  EXPECT_TRUE(ends[0].outbox().all_there());
}

// A question, its answer a millisecond later, and the next question: three frames carry two receipts.
TEST(ResumableLink, ReceiptsRideAlongWithAnswers) {
  std::vector<Link> ends;
  for (const int32_t rank : {0, 1}) {
    ends.emplace_back(Link::Options{
        .self = {.rank = rank, .ranks = 2, .epoch = 1}, .peer = 1 - rank, .message_max = 100});
    ASSERT_TRUE(
        ends[rank].gathering().add({1 - rank, {.connection = 0, .connections = 1, .attempt = 1}}));
    ends[rank].make_resumable({});
  }
  const auto say = [&](int from, SimTime now) {
    ends[from].outbox().push({1, 1}, Payload(10), 0, now);
    const auto segment = std::get<Outgoing>(ends[from].pull(0, now));
    auto bytes = ends[from].pull_rider(0, now);
    const bool rode = !bytes.empty();
    const auto frame = encode_frame(segment.header, segment.payload);
    bytes.insert(bytes.end(), frame.begin(), frame.end());
    FrameDecoder decoder;
    EXPECT_TRUE(
        decoder.feed(bytes, [&](const Frame& f) { return ends[1 - from].accept(0, f, now); }));
    return rode;
  };
  const auto ms = [](double t) { return SimTime{} + milliseconds(t); };
  EXPECT_FALSE(say(0, ms(0))) << "nothing came yet";
  EXPECT_TRUE(say(1, ms(1)));
  EXPECT_TRUE(ends[0].delivered());
  EXPECT_FALSE(ends[1].owes(0, ms(100))) << "it is said";
  EXPECT_TRUE(say(0, ms(10)));
  EXPECT_TRUE(ends[1].delivered());
  // Who is about to part says what came, for which the other side waits.
  EXPECT_FALSE(ends[1].owes(0, ms(11)));
  ends[1].close();
  EXPECT_TRUE(ends[1].owes(0, ms(11)));
}

}  // namespace
}  // namespace tombolo::link
