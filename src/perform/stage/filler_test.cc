#include "perform/stage/filler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "perform/transport/receive_timeout.h"
#include "support/test_endpoints.h"

namespace tombolo::stage {
namespace {

using testing::HasSubstr;

constexpr link::Tag kTag{1, 1};
constexpr SimDuration kPiece{123'000};

// Fills some times, then does what it was given to do, and says no from then on.
class CountedFiller : public Filler {
 public:
  CountedFiller(const Clock& clock, int times, std::function<void()> then)
      : clock_(clock), times_(times), then_(std::move(then)) {}
  bool fill(SimTime until) override {
    EXPECT_LE(until, clock_.now() + kPiece);
    threads_.insert(std::this_thread::get_id());
    if (++calls_ <= times_) return true;
    if (calls_ == times_ + 1) then_();
    return false;
  }
  int calls() const { return calls_; }
  const std::set<std::thread::id>& threads() const { return threads_; }

 private:
  const Clock& clock_;
  int times_, calls_ = 0;
  std::function<void()> then_;
  std::set<std::thread::id> threads_;
};

class FillerTest : public transport::EndpointTest {
 protected:
  void SetUp() override {
    zero_ = endpoint(0);
    one_ = endpoint(1);
    link(*zero_, 0, *one_, 1);
  }
  std::unique_ptr<transport::Endpoint> zero_, one_;  // made in SetUp()
};

TEST_F(FillerTest, FillsUntilTheMessageIsThere) {
  CountedFiller filler(clock_, 5, [&] { ASSERT_TRUE(one_->send(0, kTag, link::Payload(7))); });
  FillingMessenger messenger(*zero_, &filler, clock_, {.piece = kPiece});
  const auto came = messenger.receive(1, kTag);
  ASSERT_TRUE(came) << came.error().text();
  EXPECT_EQ(came->payload.size(), 7u);
  EXPECT_EQ(messenger.pieces(), 5);
  EXPECT_GE(filler.calls(), 6);
}

// A message that is there goes before everything.
TEST_F(FillerTest, ComputesNothingWhereNothingIsAwaited) {
  CountedFiller filler(clock_, 5, [] {});
  FillingMessenger messenger(*zero_, &filler, clock_, {.piece = kPiece});
  ASSERT_TRUE(messenger.send(0, kTag, link::Payload(3)));
  EXPECT_TRUE(messenger.receive(0, kTag));
  EXPECT_EQ(filler.calls(), 0);
}

TEST_F(FillerTest, HearsThatAPeerIsLost) {
  CountedFiller filler(clock_, 3, [&] { one_.reset(); });
  FillingMessenger messenger(*zero_, &filler, clock_, {.piece = kPiece});
  const auto came = messenger.receive(1, kTag);
  ASSERT_FALSE(came);
  EXPECT_EQ(came.error().code, ErrorCode::kLostPeer);
  EXPECT_THAT(came.error().message, HasSubstr("lost rank 1"));
}

// Waits for messages of its own in addition to the messenger's.
class HearingFiller : public Filler {
 public:
  static constexpr link::Tag kOwn{0, kernels::kPromptTensor};
  // `then`: at the second message.
  explicit HearingFiller(std::function<void()> then = [] {}) : then_(std::move(then)) {}
  bool fill(SimTime) override { return false; }
  std::optional<transport::Endpoint::Awaited> awaited() const override {
    return transport::Endpoint::Awaited{1, kOwn};
  }
  Status take(const link::Payload& message) override {
    if (message.empty()) return failed("an empty message");
    heard_.push_back(message.size());
    if (heard_.size() == 2) then_();
    return {};
  }
  const std::vector<size_t>& heard() const { return heard_; }

 private:
  std::function<void()> then_;
  std::vector<size_t> heard_;
};

// In their order, while training has nothing; it goes first where both are there.
TEST_F(FillerTest, MessagesOfTheFiller) {
  HearingFiller filler([&] { EXPECT_TRUE(one_->send(0, kTag, link::Payload(7))); });
  FillingMessenger messenger(*zero_, &filler, clock_, {.piece = kPiece});
  ASSERT_TRUE(one_->send(0, HearingFiller::kOwn, link::Payload(3), kernels::kPromptUrgency));
  ASSERT_TRUE(one_->send(0, HearingFiller::kOwn, link::Payload(4), kernels::kPromptUrgency));
  EXPECT_EQ(messenger.receive(1, kTag)->payload.size(), 7u);
  EXPECT_THAT(filler.heard(), testing::ElementsAre(3, 4));
  EXPECT_EQ(messenger.held().times, 0);
  EXPECT_STREQ(kernels::class_of(kernels::kPromptUrgency), "prompts");
}

TEST_F(FillerTest, AFillerThatIsToldNonsenseEndsTheRank) {
  HearingFiller filler;
  FillingMessenger messenger(*zero_, &filler, clock_, {.piece = kPiece});
  ASSERT_TRUE(one_->send(0, HearingFiller::kOwn, {}, kernels::kPromptUrgency));
  EXPECT_THAT(messenger.receive(1, kTag).error().message, HasSubstr("an empty message"));
}

// LibTorch and the engine are one thread's.
TEST_F(FillerTest, OtherThreadsWaitAsEver) {
  CountedFiller filler(clock_, 1, [] {});
  FillingMessenger messenger(*zero_, &filler, clock_, {.piece = kPiece});
  std::thread other([&] { EXPECT_TRUE(messenger.receive(1, kTag)); });
  ASSERT_TRUE(one_->send(0, kTag, {}));
  other.join();
  EXPECT_EQ(filler.calls(), 0);
}

// What a message waits for a piece is counted, once and no longer than since it came.
TEST_F(FillerTest, CountsForHowLongAMessageWaited) {
  class SlowFiller : public Filler {
   public:
    SlowFiller(Clock& clock, std::function<void()> first) : clock_(clock), first_(first) {}
    bool fill(SimTime) override {
      first_();
      clock_.sleep_until(clock_.now() + SimDuration{20'000'000});
      return true;
    }

   private:
    Clock& clock_;
    std::function<void()> first_;
  } filler(clock_, [&] { ASSERT_TRUE(zero_->send(0, kTag, link::Payload(3))); });
  FillingMessenger messenger(*zero_, &filler, clock_, {.piece = kPiece});
  ASSERT_TRUE(messenger.receive(0, kTag));
  EXPECT_EQ(messenger.pieces(), 1);
  EXPECT_EQ(messenger.held().times, 1);
  EXPECT_GT(messenger.held().sum.ns, 0);
  EXPECT_LE(messenger.held().sum, messenger.filled());
  EXPECT_EQ(messenger.held().longest, messenger.held().sum);
}

// In a gap that is predicted a piece may be as long as the gap; where training is due, none is
// begun.
TEST_F(FillerTest, FillsUntilTheWindowEnds) {
  const action::Action first{action::ActionKind::kForward, 0, 0}, second{first.kind, 0, 1};
  constexpr int64_t kHour = 3'600'000'000'000;
  prefill::RankWindows windows(
      {.period = {3 * kHour}, .computations = {{first, {0}, {1}}, {second, {kHour}, {2 * kHour}}}},
      {7});
  const SimTime begin = clock_.now();
  windows.begins(1, first, begin);
  windows.ends(1, first, begin + SimDuration{1});
  class HeardFiller : public Filler {
   public:
    explicit HeardFiller(std::function<void(SimTime)> heard) : heard_(heard) {}
    bool fill(SimTime until) override {
      heard_(until);
      return true;
    }

   private:
    std::function<void(SimTime)> heard_;
  };
  std::vector<SimTime> ends;
  HeardFiller filler([&](SimTime until) {
    ends.push_back(until);
    ASSERT_TRUE(zero_->send(0, kTag, link::Payload(3)));
  });
  FillingMessenger messenger(*zero_, &filler, clock_, {.piece = kPiece, .windows = &windows});
  ASSERT_TRUE(messenger.receive(0, kTag));
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0], begin + SimDuration{kHour - 7});
}

TEST(ReceiveTimeout, IsToldFromOtherErrors) {
  EXPECT_TRUE(transport::is_receive_timeout(transport::receive_timeout(3, kTag)));
  const Error same_words{.message = transport::receive_timeout(3, kTag).message};
  EXPECT_FALSE(transport::is_receive_timeout(same_words));
}

}  // namespace
}  // namespace tombolo::stage
