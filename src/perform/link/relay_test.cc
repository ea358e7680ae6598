#include "perform/link/relay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <queue>
#include <set>

#include "base/random.h"
#include "support/seeds.h"

namespace tombolo::link {
namespace {

using ::testing::HasSubstr;

Payload bytes(size_t size, uint8_t first = 0) {
  Payload out(size);
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(first + i);
  return out;
}

// --- Small stories ------------------------------------------------------------------------------

TEST(Cut, CoversEveryByteOnceAndEvenly) {
  for (const uint64_t total : {0u, 1u, 2u, 7u, 100u}) {
    uint64_t at = 0;
    for (uint32_t s = 0; s < 3; ++s) {
      const auto [begin, end] = cut(total, s, 3);
      EXPECT_EQ(begin, at);
      EXPECT_LE(end - begin, total / 3 + 1);
      at = end;
    }
    EXPECT_EQ(at, total);
  }
  // 2^63 bytes in 5: no product overflows.
  EXPECT_EQ(cut(uint64_t{1} << 63, 4, 5).end, uint64_t{1} << 63);
}

TEST(ShareTag, NamesHopOwnerAndMessage) {
  std::set<Tag> all;
  for (const Hop hop : {Hop::kScatter, Hop::kCarry, Hop::kGather}) {
    for (const uint32_t owner : {0u, 1u, kCellMax - 1}) {
      for (const uint64_t tensor : {uint64_t{0}, uint64_t{1}, kOwnTensorMax - 1}) {
        const Tag tag = share_tag(hop, {9, tensor}, owner);
        EXPECT_EQ(tag.iteration, 9u);
        EXPECT_TRUE(is_share(tag));
        EXPECT_EQ(whole_tag(tag), (Tag{9, tensor}));
        all.insert(tag);
      }
    }
  }
  EXPECT_EQ(all.size(), 27u);
}

// Rank 1 of the cell {0, 1}, counterpart 3. The boundary's order is that of member 1, then 0.
TEST(Relay, WaitsForTheNextTransferOfTheBoundary) {
  Relay relay({{.outgoing = true, .members = {0, 1}, .across = 3, .turns = {{1, 4}, {0, 4}}}}, 5,
              6);
  const auto wanted = [&] { return relay.wanted().at(0); };
  EXPECT_EQ(wanted().from, 1);
  EXPECT_EQ(wanted().tag, share_tag(Hop::kScatter, {5, 4}, 1));
  Relay::Parcel parcel = relay.carry(0, {bytes(3), {7}, {8}});
  EXPECT_EQ(parcel.to, 3);
  EXPECT_EQ(parcel.tag, share_tag(Hop::kCarry, {5, 4}, 1));
  EXPECT_EQ(parcel.payload, bytes(3));
  EXPECT_EQ(wanted().from, 0);
  const Urgency before = parcel.urgency;
  EXPECT_GT(relay.carry(0, {}).urgency, before);
  EXPECT_EQ(wanted().tag, share_tag(Hop::kScatter, {6, 4}, 1));
  relay.carry(0, {});
  relay.carry(0, {});
  EXPECT_TRUE(relay.wanted().empty());
}

// The other side: rank 3 of {2, 3} has a share from rank 1, which left at 700 ns, for member 0.
TEST(Relay, HandsOverWhatCameFromAcross) {
  Relay relay({{.outgoing = false, .members = {2, 3}, .across = 1, .turns = {{0, 4}}}}, 1, 1);
  EXPECT_EQ(relay.wanted().at(0).from, 1);
  EXPECT_EQ(relay.wanted().at(0).tag, share_tag(Hop::kCarry, {1, 4}, 0));
  Relay::Parcel parcel = relay.carry(0, {bytes(5), {700}, {900}});
  EXPECT_EQ(parcel.to, 2);
  EXPECT_EQ(parcel.tag, share_tag(Hop::kGather, {1, 4}, 0));
  Gather gather(1);
  ASSERT_TRUE(gather.add(0, {std::move(parcel.payload), {950}, {960}}));
  const Result<Received> message = gather.take();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->payload, bytes(5));
  EXPECT_EQ(message->sent_start, SimTime{700});
  EXPECT_EQ(message->delivered, SimTime{960});
}

// A share of a gather, with its note.
Received share(Payload payload, int64_t start, int64_t delivered) {
  Relay relay({{.members = {0}, .across = 1, .turns = {{0, 0}}}}, 0, 0);
  return {relay.carry(0, {std::move(payload), {start}, {}}).payload, {}, {delivered}};
}

// 5 bytes in 2 shares: 2 and 3.
TEST(Gather, JoinsSharesThatComeInAnyOrder) {
  Gather gather(2);
  ASSERT_TRUE(gather.add(1, share(bytes(3, 2), 20, 90)));
  ASSERT_TRUE(gather.add(0, share(bytes(2), 30, 80)));
  const Result<Received> message = gather.take();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->payload, bytes(5));
  EXPECT_EQ(message->sent_start, SimTime{20});
  EXPECT_EQ(message->delivered, SimTime{90});
}

TEST(Gather, RefusesWhatNoMessageWasCutInto) {
  Gather twice(2);
  ASSERT_TRUE(twice.add(0, share(bytes(2), 0, 0)));
  EXPECT_EQ(twice.add(0, share(bytes(2), 0, 0)).error().message, "share 0 of 2 came twice");
  EXPECT_EQ(twice.add(2, share({}, 0, 0)).error().message, "share 2 of 2 came twice");
  EXPECT_THAT(twice.add(1, {bytes(7), {}, {}}).error().message, HasSubstr("no note"));
  EXPECT_THAT(twice.add(1, {Payload(8, std::byte{255}), {}, {}}).error().message,
              HasSubstr("no instant"));
  Gather uneven(2);
  ASSERT_TRUE(uneven.add(0, share(bytes(3), 0, 0)));
  ASSERT_TRUE(uneven.add(1, share(bytes(2), 0, 0)));
  EXPECT_EQ(uneven.take().error().message,
            "share 0 of 2 has 3 bytes, and a message of 5 would give it 2");
}

// --- A simulated network ------------------------------------------------------------------------

// Two cells of c ranks face each other: rank i < c is member i of the near one, rank c + i of the
// far one. Activations go over, gradients come back. Shares travel with delays of their own, so
// that they overtake each other, within a link too (several connections); some come twice; with
// failures (`storm`) a rank falls silent, and the others notice after a while or never (half-open).
class RelayOcean {
 public:
  explicit RelayOcean(uint64_t seed) : random_(Random(seed).stream("relay ocean")) {
    cell_ = static_cast<uint32_t>(1 + random_.below(4));
    microbatches_ = 1 + random_.below(6);
    iterations_ = 1 + random_.below(3);
    delay_ms_ = random_.below(2) == 0 ? 1 : 60;
    twice_ = random_.below(3) == 0 ? 0.2 : 0;
    const std::vector<Turn> there = turns(0), back = turns(1);
    for (int32_t rank = 0; rank < ranks(); ++rank) {
      ends_.emplace_back(
          Relay({passage(rank, rank < across(0), there), passage(rank, rank >= across(0), back)}, 1,
                iterations_));
    }
  }

  void run() {
    const uint64_t storm = random_.below(4);
    if (storm < 2) {
      agenda(random_.uniform() * 300, [this, storm] {
        lost_ = static_cast<int32_t>(random_.below(static_cast<uint64_t>(ranks())));
        if (storm == 0) agenda(random_.uniform() * 50, [this] { notice(); });
      });
    }
    for (int32_t rank = 0; rank < ranks(); ++rank) set_out(rank);
    for (int32_t rank = 0; rank < ranks(); ++rank) work(rank);
    int events = 0;
    while (!queue_.empty()) {
      ASSERT_LT(++events, 100'000) << "it does not end";
      Entry entry = queue_.top();
      queue_.pop();
      now_ = entry.when;
      entry.what();
    }
    for (int32_t rank = 0; rank < ranks(); ++rank) check(rank);
  }

 private:
  struct End {
    explicit End(Relay with) : relay(std::move(with)) {}
    Relay relay;
    std::map<int32_t, Inbox> inboxes;  // by sender
    std::map<Tag, Gather> gathers;     // by the message's tag, of messages for this rank
    std::map<Tag, std::set<uint32_t>> here;
    std::map<Tag, Payload> messages;
    std::optional<Error> error;
  };
  struct Entry {
    SimTime when;
    uint64_t sequence;
    std::function<void()> what;
    bool operator<(const Entry& other) const {
      return std::pair(when, sequence) > std::pair(other.when, other.sequence);
    }
  };

  int32_t ranks() const { return static_cast<int32_t>(2 * cell_); }
  int32_t across(int32_t rank) const {
    const auto c = static_cast<int32_t>(cell_);
    return rank < c ? rank + c : rank - c;
  }
  // Some order of all transfers of one direction. Tensors are those of the schedule: twice the
  // microbatch, and one more for gradients.
  std::vector<Turn> turns(uint64_t gradient) {
    std::vector<Turn> out;
    for (uint32_t owner = 0; owner < cell_; ++owner) {
      for (uint64_t m = 0; m < microbatches_; ++m) {
        const auto at = static_cast<ptrdiff_t>(random_.below(out.size() + 1));
        out.insert(out.begin() + at, Turn{owner, 2 * m + gradient});
      }
    }
    return out;
  }
  Passage passage(int32_t rank, bool outgoing, std::vector<Turn> turns) const {
    Passage out{.outgoing = outgoing, .across = across(rank), .turns = std::move(turns)};
    const int32_t first = rank < across(0) ? 0 : across(0);
    for (uint32_t i = 0; i < cell_; ++i) out.members.push_back(first + static_cast<int32_t>(i));
    return out;
  }
  static Payload content(const Tag& tag, uint32_t owner) {
    const uint64_t number = tag.iteration * 31 + tag.tensor * 7 + owner;
    return bytes(number % 5 == 0 ? number % 3 : 10 + number % 90, static_cast<uint8_t>(number));
  }

  void agenda(double ms, std::function<void()> what) {
    const SimDuration after{static_cast<int64_t>(ms * 1e6)};
    queue_.push({now_ + after, sequence_++, std::move(what)});
  }

  // A rank's own messages, in any order and at any time: their turns come when they come.
  void set_out(int32_t rank) {
    const uint32_t owner = static_cast<uint32_t>(rank) % cell_;
    const int32_t first = rank - static_cast<int32_t>(owner);
    for (uint64_t i = 1; i <= iterations_; ++i) {
      for (uint64_t m = 0; m < microbatches_; ++m) {
        const Tag tag{i, 2 * m + (rank < across(0) ? 0 : 1)};
        agenda(random_.uniform() * 200, [this, rank, owner, first, tag] {
          const Payload message = content(tag, owner);
          for (uint32_t s = 0; s < cell_; ++s) {
            const auto [begin, end] = cut(message.size(), s, cell_);
            const auto at = message.begin();
            send(
                rank,
                {first + static_cast<int32_t>(s), share_tag(Hop::kScatter, tag, owner),
                 Payload(at + static_cast<ptrdiff_t>(begin), at + static_cast<ptrdiff_t>(end)), 0});
          }
        });
      }
    }
  }

  void send(int32_t from, const Relay::Parcel& parcel) {
    if (from == lost_) return;
    if (parcel.to != from && ++sent_[{from, parcel.to, parcel.tag}] > 1) {
      ADD_FAILURE() << "rank " << from << " sent " << text(parcel.tag) << " twice";
    }
    const int copies = parcel.to != from && random_.uniform() < twice_ ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      const double delay = parcel.to == from ? 0 : random_.uniform() * delay_ms_;
      agenda(delay, [this, from, parcel, left = now_] {
        if (parcel.to == lost_ || from == lost_) return;  // what was on its way is gone
        ends_[static_cast<size_t>(parcel.to)].inboxes[from].add(
            {parcel.tag, parcel.payload, left, left}, now_);
        work(parcel.to);
      });
    }
  }

  // What the thread of a relay does, and the receiver's.
  void work(int32_t rank) {
    End& end = ends_[static_cast<size_t>(rank)];
    for (bool again = true; again && !end.error && rank != lost_;) {
      again = false;
      for (const Relay::Wanted& wanted : end.relay.wanted()) {
        Inbox& inbox = end.inboxes[wanted.from];
        if (inbox.due(wanted.tag, {})) {
          send(rank, end.relay.carry(wanted.passage, inbox.take(wanted.tag, {})));
          again = true;
        } else if (wanted.from == lost_ && noticed_) {
          end.error = Error{ErrorCode::kLostPeer, "lost rank " + std::to_string(lost_)};
        }
      }
    }
    receive(rank);
  }

  void receive(int32_t rank) {
    End& end = ends_[static_cast<size_t>(rank)];
    const uint32_t owner = static_cast<uint32_t>(rank) % cell_;
    const int32_t first = rank - static_cast<int32_t>(owner);
    for (uint64_t i = 1; i <= iterations_; ++i) {
      for (uint64_t m = 0; m < microbatches_; ++m) {
        const Tag tag{i, 2 * m + (rank < across(0) ? 1 : 0)};
        if (end.messages.contains(tag)) continue;
        Gather& gather = end.gathers.try_emplace(tag, cell_).first->second;
        std::set<uint32_t>& here = end.here[tag];
        for (uint32_t s = 0; s < cell_; ++s) {
          Inbox& inbox = end.inboxes[first + static_cast<int32_t>(s)];
          const Tag share = share_tag(Hop::kGather, tag, owner);
          if (here.contains(s) || !inbox.due(share, {})) continue;
          here.insert(s);
          ASSERT_TRUE(gather.add(s, inbox.take(share, {})));
        }
        if (here.size() < cell_) continue;
        const Result<Received> message = gather.take();
        ASSERT_TRUE(message) << message.error().text();
        end.messages.emplace(tag, message->payload);
      }
    }
  }

  void notice() {
    noticed_ = true;
    for (int32_t rank = 0; rank < ranks(); ++rank) work(rank);
  }

  // Whole messages only; all of them, unless a rank fell silent. Then each that waits for that rank
  // names it.
  void check(int32_t rank) {
    const End& end = ends_[static_cast<size_t>(rank)];
    const uint32_t owner = static_cast<uint32_t>(rank) % cell_;
    for (const auto& [tag, payload] : end.messages) EXPECT_EQ(payload, content(tag, owner));
    if (lost_ < 0) {
      EXPECT_EQ(end.messages.size(), iterations_ * microbatches_);
      EXPECT_TRUE(end.relay.wanted().empty());
    } else if (end.error) {
      EXPECT_EQ(end.error->message, "lost rank " + std::to_string(lost_));
    } else if (noticed_ && rank != lost_) {
      for (const Relay::Wanted& wanted : end.relay.wanted()) EXPECT_NE(wanted.from, lost_);
    }
  }

  Random random_;
  uint32_t cell_ = 1;
  uint64_t microbatches_ = 1, iterations_ = 1;
  double delay_ms_ = 1, twice_ = 0;
  std::vector<End> ends_;
  std::map<std::tuple<int32_t, int32_t, Tag>, int> sent_;
  SimTime now_;
  uint64_t sequence_ = 0;
  std::priority_queue<Entry> queue_;
  int32_t lost_ = -1;
  bool noticed_ = false;
};

// ./test.sh --long sails a longer way.
TEST(RelayOcean, EveryMessageComesOnceAndWholeOrTheLostRankIsNamed) {
  for (uint64_t seed = 0; seed < seeds(100, 1'000); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RelayOcean(seed).run();
    if (testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace tombolo::link
