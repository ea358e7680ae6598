// A small simulated network: the code that runs over sockets, over a link that exists only in
// numbers.
#include <gtest/gtest.h>

#include "base/random.h"
#include "perform/link/assembler.h"
#include "perform/link/mailbox.h"
#include "support/seeds.h"

namespace tombolo::link {
namespace {

struct Timed {
  Tag tag;
  Payload payload;
  SimTime at;
};

// Messages of random size at random times; some while the link is busy, some after a pause.
std::vector<Timed> traffic(Random& random) {
  std::vector<Timed> out;
  SimTime now{static_cast<int64_t>(random.below(1000))};
  for (uint64_t i = 0, n = 1 + random.below(8); i < n; ++i) {
    Payload payload(random.below(4) == 0 ? random.below(3) : random.below(40'000));
    for (size_t at = 0; at < payload.size(); at += 64) payload[at] = std::byte(random.below(256));
    out.push_back({{random.below(3), random.below(2)}, std::move(payload), now});
    if (random.below(2)) now = now + SimDuration{static_cast<int64_t>(random.below(2'000'000))};
  }
  return out;
}

// One seed's world: a paced outbox whose timer is late, a stream in random portions that takes
// random but ordered transit times, a decoder, an assembler and an inbox.
class Ocean {
 public:
  explicit Ocean(uint64_t seed) : random_(Random(seed).stream("ocean")) {}

  void run() {
    shape_.rate = BytesPerSecond{1e6 + random_.uniform() * 1e9};
    shape_.delay = {static_cast<int64_t>(random_.below(50'000'000))};
    outbox_.set_shape(shape_);
    const std::vector<Timed> all = traffic(random_);
    sail(all);
    check(all);
  }

 private:
  // Every timer is late by up to the delay, and still the law must hold: lateness does not add up.
  void sail(const std::vector<Timed>& all) {
    SimTime now;
    size_t next = 0;
    while (next < all.size() || !outbox_.empty()) {
      const auto departure = outbox_.next_departure(now);
      if (next < all.size() && (!departure || all[next].at <= *departure)) {
        outbox_.push(all[next].tag, all[next].payload, 0, all[next].at);
        now = std::max(now, all[next++].at);
        continue;
      }
      now = std::max(now, *departure + some(shape_.delay));
      arrive(outbox_.take(now), now);
    }
  }

  SimDuration some(SimDuration most) {
    return {static_cast<int64_t>(random_.below(static_cast<uint64_t>(most.ns) + 1))};
  }

  // Timed at `now`, the frame arrives at any instant until the delay line would let go of it, but
  // never before the frame that was sent before.
  void arrive(const Outgoing& out, SimTime now) {
    const SimTime due = out.header.departed + shape_.delay;
    ASSERT_LE(now, due);
    arrived_ = std::max(arrived_, now + some(due - now));
    const auto stream = encode_frame(out.header, out.payload);
    for (std::span<const std::byte> rest(stream); !rest.empty();) {
      const size_t portion = std::min<size_t>(rest.size(), 1 + random_.below(20'000));
      const Status status = decoder_.feed(rest.first(portion), [&](const Frame& frame) -> Status {
        for (Message& message : TRY(assembler_.add(frame)))
          inbox_.add(std::move(message), arrived_);
        return {};
      });
      ASSERT_TRUE(status) << status.error().text();
      rest = rest.subspan(portion);
    }
  }

  // Everything is there, in order, at the instant of the law: max(handed over, free) + B / rate +
  // delay, here once more in floating point.
  void check(const std::vector<Timed>& all) {
    double free = 0;
    for (const Timed& sent : all) {
      ASSERT_TRUE(inbox_.due(sent.tag, shape_.delay));
      const Received received = inbox_.take(sent.tag, shape_.delay);
      EXPECT_EQ(received.payload, sent.payload);
      const double start = std::max(free, static_cast<double>(sent.at.ns));
      free = start + static_cast<double>(sent.payload.size()) / shape_.rate->value * 1e9;
      EXPECT_NEAR(static_cast<double>(received.sent_start.ns), start, 2);
      EXPECT_NEAR(static_cast<double>((received.delivered - shape_.delay).ns), free, 2);
    }
    EXPECT_EQ(inbox_.queued_bytes(), 0u);
  }

  Random random_;
  LinkShape shape_;
  Outbox outbox_{3, 1};
  FrameDecoder decoder_;
  Assembler assembler_{{.sender = 3, .epoch = 1, .message_max = 60'000}};
  Inbox inbox_;
  SimTime arrived_;
};

// ./test.sh --long sails a longer way.
TEST(Ocean, AThousandSeedsObeyTheLaw) {
  for (uint64_t seed = 0; seed < seeds(1'000, 50'000); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Ocean(seed).run();
    if (testing::Test::HasFailure()) break;
  }
}

// The same stream with one byte changed or missing must never be taken for messages.
TEST(Ocean, AThousandAccidentsAreNoticed) {
  for (uint64_t seed = 0; seed < seeds(1'000, 50'000); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random = Random(seed).stream("accident");
    Outbox outbox(3, 1);
    outbox.set_shape({.rate = 1_Mbps});  // frames of 16 KiB
    for (uint64_t i = 0; i < 3; ++i) outbox.push({0, i}, Payload(random.below(40'000)), 0, {0});
    std::vector<std::byte> stream;
    while (!outbox.empty()) {
      const SimTime now{int64_t{1} << 60};
      const Outgoing out = outbox.take(now);
      const auto frame = encode_frame(out.header, out.payload);
      stream.insert(stream.end(), frame.begin(), frame.end());
    }
    const size_t at = random.below(stream.size());
    if (random.below(2)) {
      stream[at] ^= static_cast<std::byte>(1 + random.below(255));
    } else {
      stream.erase(stream.begin() + static_cast<ptrdiff_t>(at));
    }
    FrameDecoder decoder;
    Assembler assembler({.sender = 3, .epoch = 1, .message_max = 60'000});
    size_t complete = 0;
    const Status status = decoder.feed(stream, [&](const Frame& frame) -> Status {
      complete += TRY(assembler.add(frame)).size();
      return {};
    });
    // An error, or the end of the stream comes in the middle of a frame.
    EXPECT_LT(complete, 3u);
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace tombolo::link
