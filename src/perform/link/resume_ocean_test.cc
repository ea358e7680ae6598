// Links that outlive their connections, over a simulated network with failures: connections are
// cut, each end notices when it does, calls fail or their answers are lost, bits change on the way,
// and all connections may be gone at once. The receiver waits for one message at a time, in any
// order, naps in between, and may have room for less than one. Whatever happens every message comes
// once, whole and in its order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "perform/link/link.h"
#include "support/seeds.h"
#include "support/test_water.h"

namespace tombolo::link {
namespace {

constexpr uint32_t kSegmentMax = 8'500;
// Bits change no longer than this, and connections are cut before: then what is left has to end. For as long as one
// of 40 frames is damaged, a path that holds 60 brings nearly no receipt back, and each new connection begins where
// the last receipt stood: 22 messages needed 88 connections.
constexpr SimTime kBitsChangeUntil{5'000'000'000};

// Mistakes that a driver could make; the simulation must notice each of them.
enum class Mistake {
  kNone,
  kForgetsWhatWasKept,  // of a lost connection
  kTrustsTheKernel,     // what was written counts as received
  kMixesLives,          // what came late from a lost connection counts for its successor
  kKeepsItsCredit,      // does not say that a receiver waits
  kBelievesDamage,      // a bit that changed is as if the other side had sent it
};

struct Said {
  Tag tag;
  Payload payload;
  Urgency urgency = 0;
};

struct Shore {
  explicit Shore(Link::Options options) : link(std::move(options)) {}
  Link link;
  std::map<uint32_t, int> life;  // of the connections that it thinks are here
  std::map<uint32_t, FrameDecoder> decoders;
  std::map<uint32_t, Water> out;
  std::map<uint32_t, bool> busy;
  std::map<std::pair<uint32_t, int>, std::vector<std::vector<std::byte>>> early;
  std::vector<Said> said;
  size_t to_say = 0;
  std::optional<Tag> awaits;
  bool naps = false;
  std::map<Tag, std::vector<Payload>> heard;
  size_t messages = 0;
};

class ResumeOcean {
 public:
  ResumeOcean(uint64_t seed, Mistake mistake)
      : mistake_(mistake),
        random_(Random(seed).stream("resume ocean")),
        noise_(Random(seed).stream("noise")) {
    connections_ = static_cast<uint32_t>(1 + random_.below(4));
    for (const int32_t rank : {0, 1}) {
      Link::Options options{.self = {.rank = rank, .ranks = 2, .epoch = 1, .incarnation = 5},
                            .peer = 1 - rank,
                            .message_max = 1 << 20};
      options.ledger.receipt_bytes = 20'000;
      if (random_.below(2) == 0) options.window = 6'000 + random_.below(20'000);
      is_tight_ = is_tight_ || options.window != kUnlimited;
      windows_.push_back(options.window);
      shores_.emplace_back(std::move(options));
    }
  }

  // What went wrong; nothing if all is well.
  std::string run() {
    set_out();
    for (uint64_t i = 0, cuts = random_.below(12); i < cuts; ++i) {
      agenda_.at(after(1'500), [this] {
        if (random_.below(4) == 0) {
          for (uint32_t c = 0; c < connections_; ++c) cut(c);
        } else {
          cut(static_cast<uint32_t>(random_.below(connections_)));
        }
      });
    }
    bits_change_ = noise_.below(2) == 0;
    while (fault_.empty() && !done()) {
      if (!agenda_.step() || ++events_ > 20'000) fault_ = "it does not end";
    }
    for (Shore& shore : shores_) check(shore);
    return fault_;
  }
  int cuts() const { return cuts_; }
  int damages() const { return damages_; }

 private:
  SimTime after(double most_ms) {
    return agenda_.now() + milliseconds(random_.uniform() * most_ms);
  }
  Shore& other(const Shore& shore) { return &shore == &shores_[0] ? shores_[1] : shores_[0]; }
  void blame(const std::string& fault) {
    if (fault_.empty()) fault_ = fault;
  }

  void set_out() {
    for (Shore& shore : shores_) {
      shore.link.set_their_window(windows_[&shore == &shores_[0] ? 1 : 0]);
      for (uint32_t i = 0; i < connections_; ++i) {
        const LinkPart part{.connection = i, .connections = connections_, .attempt = 1};
        EXPECT_TRUE(shore.link.gathering().add({.rank = 1, .part = part, .incarnation = 5}));
        shore.life[i] = 0;
        shore.out[i] = {.rate = BytesPerSecond{1e5 + random_.uniform() * 3e6},
                        .delay = milliseconds(random_.uniform() * 80),
                        .stalls = random_.below(2) == 0 ? 0 : 0.02};
        shore.decoders.try_emplace(i, kSegmentMax);
      }
      shore.link.make_resumable(agenda_.now());
      shore.to_say = random_.below(25);
      SimTime when;
      for (uint64_t i = 0; i < shore.to_say; ++i) {
        if (random_.below(2) == 0) when = when + milliseconds(random_.uniform() * 60);
        agenda_.at(when, [this, &shore] { say(shore); });
      }
      agenda_.at(when, [this, &shore] { close_if_through(shore); });
    }
  }

  void say(Shore& shore) {
    Payload payload(random_.below(5) == 0 ? random_.below(3) : random_.below(30'000));
    for (size_t i = 0; i < payload.size(); i += 100) payload[i] = std::byte(random_.below(256));
    const Said said{{random_.below(2), random_.below(3)}, payload, random_.below(3)};
    shore.link.outbox().set_segment_max(
        static_cast<uint32_t>(500 + random_.below(kSegmentMax - 500)));
    shore.link.outbox().push(said.tag, payload, said.urgency, agenda_.now());
    shore.said.push_back(said);
    close_if_through(shore);
    pump(shore);
    take(other(shore));
  }

  // Has said and heard everything.
  void close_if_through(Shore& shore) {
    if (shore.said.size() < shore.to_say || shore.messages < other(shore).to_say) return;
    shore.link.close();
    pump(shore);
  }

  bool over(const Shore& shore) { return shore.link.finished(); }
  bool done() { return over(shores_[0]) || over(shores_[1]); }  // the other one is hung up on

  // --- Connections ------------------------------------------------------------------------------

  // Nothing gets through any more, and each end notices when it does.
  void cut(uint32_t connection) {
    const int life = std::max(shores_[0].life[connection], shores_[1].life[connection]);
    if (life < 0 || broken_[{connection, life}]) return;
    ++cuts_;
    broken_[{connection, life}] = true;
    for (Shore& shore : shores_)
      agenda_.at(after(400), [this, &shore, connection, life] { notice(shore, connection, life); });
  }

  void notice(Shore& shore, uint32_t connection, int life) {
    if (shore.life[connection] != life) return;
    lose(shore, connection);
    if (&shore == &shores_[1]) agenda_.at(after(200), [this, connection] { call(connection); });
    pump(shore);
  }

  void lose(Shore& shore, uint32_t connection) {
    if (mistake_ == Mistake::kForgetsWhatWasKept) shore.link.ledger(connection)->take_back();
    shore.link.lose(connection, agenda_.now());
    shore.life[connection] = -1;
    shore.busy[connection] = false;
  }

  // Shore 1 calls; the call may fail, and so may the answer.
  void call(uint32_t connection) {
    if (shores_[1].life[connection] >= 0) return;
    const int life = ++lives_[connection];
    const uint64_t luck = random_.below(6);
    if (luck > 0) {
      agenda_.at(after(80),
                 [this, connection, life] { arrive_anew(shores_[0], connection, life); });
    }
    agenda_.at(agenda_.now() + milliseconds(100 + random_.uniform() * 60),
               [this, connection, life, luck] {
                 if (luck > 1) return arrive_anew(shores_[1], connection, life);
                 broken_[{connection, life}] = true;
                 call(connection);
               });
  }

  void arrive_anew(Shore& shore, uint32_t connection, int life) {
    if (shore.life[connection] >= 0) lose(shore, connection);  // it had not noticed
    shore.link.resume(connection, agenda_.now());
    shore.life[connection] = life;
    shore.decoders.insert_or_assign(connection, FrameDecoder(kSegmentMax));
    for (const auto& frame : shore.early[{connection, life}]) arrive(shore, connection, frame);
    if (broken_[{connection, life}])  // before it was there
      agenda_.at(after(400), [this, &shore, connection, life] { notice(shore, connection, life); });
    pump(shore);
  }

  // --- Bytes ------------------------------------------------------------------------------------

  void pump(Shore& shore) {
    for (uint32_t i = 0; i < connections_; ++i) pump(shore, i);
  }

  void pump(Shore& shore, uint32_t connection) {
    const int life = shore.life[connection];
    if (life < 0 || shore.busy[connection] || shore.link.said_goodbye(connection)) return;
    const auto waiting = shore.link.outbox().queued_by_urgency();
    Link::Pull next = shore.link.pull(connection, agenda_.now());
    std::vector<std::byte> frame;
    if (auto* control = std::get_if<std::vector<std::byte>>(&next)) {
      frame = std::move(*control);
    } else if (auto* segment = std::get_if<Outgoing>(&next)) {
      for (const auto& [urgency, bytes] : waiting) {
        if (urgency < segment->urgency && bytes > 0 && !is_tight_)
          blame("something more urgent waits");
      }
      if (mistake_ == Mistake::kTrustsTheKernel) shore.link.ledger(connection)->take_back();
      frame = shore.link.pull_rider(connection, agenda_.now());
      std::vector<std::byte> payload(segment->payload.begin(), segment->payload.end());
      if (mistake_ == Mistake::kBelievesDamage && bits_change_ && !payload.empty()) damage(payload);
      const auto bytes = encode_frame(segment->header, payload);
      frame.insert(frame.end(), bytes.begin(), bytes.end());
    } else {
      return wake(shore, connection, life);
    }
    depart(shore, connection, life, std::move(frame));
  }

  // One bit, now and then.
  bool damage(std::vector<std::byte>& bytes) {
    if (agenda_.now() >= kBitsChangeUntil || noise_.below(40) > 0) return false;
    bytes[noise_.below(bytes.size())] ^= std::byte(1U << noise_.below(8));
    ++damages_;
    return true;
  }

  void depart(Shore& shore, uint32_t connection, int life, std::vector<std::byte> frame) {
    if (bits_change_ && mistake_ != Mistake::kBelievesDamage && damage(frame))
      damaged_.insert({connection, life});
    shore.busy[connection] = true;
    Water& water = shore.out[connection];
    const SimTime arrival = water.arrival(agenda_.now(), frame.size(), random_);
    agenda_.at(water.free, [this, &shore, connection, life] {
      if (shore.life[connection] != life) return;
      shore.busy[connection] = false;
      pump(shore, connection);
    });
    agenda_.at(arrival, [this, &shore, connection, life, frame = std::move(frame)] {
      Shore& there = other(shore);
      const bool early = there.life[connection] < life && !broken_[{connection, life}];
      if (early) return there.early[{connection, life}].push_back(frame);  // behind the answer
      const bool late = broken_[{connection, life}] || there.life[connection] != life;
      if (!late || (mistake_ == Mistake::kMixesLives && there.life[connection] > life))
        arrive(there, connection, frame);
    });
  }

  void wake(Shore& shore, uint32_t connection, int life) {
    const SimTime at = shore.link.ledger(connection)->wake();
    SimTime& asleep = asleep_[{&shore, connection}];
    if (asleep > agenda_.now() && asleep <= at) return;
    asleep = std::max(at, agenda_.now() + milliseconds(1));
    agenda_.at(asleep, [this, &shore, connection, life] {
      if (shore.life[connection] == life) pump(shore, connection);
    });
  }

  void arrive(Shore& shore, uint32_t connection, std::span<const std::byte> frame) {
    const int life = shore.life[connection];
    if (life < 0 || shore.link.heard_goodbye(connection) || over(shore)) return;
    const Status status = shore.decoders.at(connection).feed(frame, [&](const Frame& f) {
      return shore.link.accept(connection, f, agenda_.now());
    });
    // As the driver does: what a decoder refuses is an accident, and the connection is lost.
    const bool damaged = damaged_.contains({connection, life});
    if (!status && !damaged) return blame(status.error().message);
    if (!status) {
      cut(connection);
      return notice(shore, connection, life);
    }
    // Where a length changed no frame may ever be whole; the driver waits for that only so long.
    if (damaged && watched_.insert({connection, life, &shore}).second) {
      agenda_.at(agenda_.now() + milliseconds(3'000), [this, &shore, connection, life] {
        if (shore.life[connection] != life) return;
        cut(connection);
        notice(shore, connection, life);
      });
    }
    take(shore);
    pump(shore);
  }

  // Waits for any message that was said and not heard.
  void take(Shore& shore) {
    while (!shore.naps) {
      if (!shore.awaits) {
        const auto tag = draw_pending(shore);
        if (!tag) return;
        shore.awaits = tag;
        if (mistake_ != Mistake::kKeepsItsCredit) shore.link.begin_waiting();
      }
      const Tag tag = *shore.awaits;
      if (!shore.link.inbox().due(tag, {})) return pump(shore);
      shore.awaits.reset();
      if (mistake_ != Mistake::kKeepsItsCredit) shore.link.end_waiting();
      shore.heard[tag].push_back(shore.link.inbox().take(tag, {}).payload);
      ++shore.messages;
      close_if_through(shore);
      if (random_.below(3) > 0) continue;
      shore.naps = true;
      agenda_.at(after(60), [this, &shore] {
        shore.naps = false;
        take(shore);
        pump(shore);
      });
    }
  }

  std::optional<Tag> draw_pending(Shore& shore) {
    std::map<Tag, size_t> said;
    for (const Said& each : other(shore).said) ++said[each.tag];
    std::vector<Tag> pending;
    for (const auto& [tag, count] : said)
      if (count > shore.heard[tag].size()) pending.push_back(tag);
    if (pending.empty()) return std::nullopt;
    const Tag last = other(shore).said.back().tag;  // all others stand before it
    if (random_.below(2) == 0 && said[last] > shore.heard[last].size()) return last;
    return pending[random_.below(pending.size())];
  }

  void check(Shore& shore) {
    std::map<Tag, std::vector<Payload>> expected;
    for (const Said& said : other(shore).said) expected[said.tag].push_back(said.payload);
    for (auto& [tag, payloads] : expected) {  // it may nap when all is here
      while (shore.link.inbox().due(tag, {}))
        shore.heard[tag].push_back(shore.link.inbox().take(tag, {}).payload);
    }
    std::erase_if(shore.heard, [](const auto& each) { return each.second.empty(); });
    if (shore.heard != expected) blame("a message was lost, came twice, out of order or changed");
  }

  const Mistake mistake_;
  Random random_;
  Random noise_;  // drawn apart: a seed's cuts stay the same
  Agenda agenda_;
  uint32_t connections_ = 1;
  std::vector<Shore> shores_;
  std::vector<uint64_t> windows_;
  bool is_tight_ = false;
  std::map<std::pair<uint32_t, int>, bool> broken_;
  std::map<uint32_t, int> lives_;
  bool bits_change_ = false;
  std::set<std::tuple<uint32_t, int, Shore*>> watched_;
  std::set<std::pair<uint32_t, int>> damaged_;  // connections and lives that carried such a bit
  std::map<std::pair<Shore*, uint32_t>, SimTime> asleep_;
  std::string fault_;
  int cuts_ = 0;
  int damages_ = 0;
  int events_ = 0;
};

// ./test.sh --long sails a longer way.
TEST(ResumeOcean, NothingIsLostOrTwiceWhateverIsCut) {
  int cuts = 0, damages = 0;
  for (uint64_t seed = 0; seed < seeds(250, 10'000); ++seed) {
    ResumeOcean ocean(seed, Mistake::kNone);
    ASSERT_EQ(ocean.run(), "") << "seed " << seed;
    cuts += ocean.cuts();
    damages += ocean.damages();
  }
  EXPECT_GT(cuts, 250) << "the ocean was too calm";
  EXPECT_GT(damages, 100);
}

// One connection to whose receiver's side 60 frames are under way when the first one is damaged.
TEST(ResumeOcean, EndsOnceBitsNoLongerChange) {
  ResumeOcean ocean(7292, Mistake::kNone);
  EXPECT_EQ(ocean.run(), "");
  EXPECT_GT(ocean.damages(), 8);
}

TEST(ResumeOcean, NoticesWhatADriverDoesWrong) {
  for (const Mistake mistake :
       {Mistake::kForgetsWhatWasKept, Mistake::kTrustsTheKernel, Mistake::kMixesLives,
        Mistake::kKeepsItsCredit, Mistake::kBelievesDamage}) {
    int noticed = 0;
    for (uint64_t seed = 0; seed < 60 && noticed <= 2; ++seed)
      noticed += !ResumeOcean(seed, mistake).run().empty();
    EXPECT_GT(noticed, 2) << "mistake " << static_cast<int>(mistake);
  }
}

}  // namespace
}  // namespace tombolo::link
