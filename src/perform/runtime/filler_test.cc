#include "perform/runtime/filler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <thread>

#include "perform/transport/receive_timeout.h"
#include "support/test_endpoints.h"

namespace tombolo::runtime {
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

// LibTorch and the engine are one thread's.
TEST_F(FillerTest, OtherThreadsWaitAsEver) {
  CountedFiller filler(clock_, 1, [] {});
  FillingMessenger messenger(*zero_, &filler, clock_, {.piece = kPiece});
  std::thread other([&] { EXPECT_TRUE(messenger.receive(1, kTag)); });
  ASSERT_TRUE(one_->send(0, kTag, {}));
  other.join();
  EXPECT_EQ(filler.calls(), 0);
}

TEST(ReceiveTimeout, IsToldFromOtherErrors) {
  EXPECT_TRUE(transport::is_receive_timeout(transport::receive_timeout(3, kTag)));
  EXPECT_FALSE(
      transport::is_receive_timeout({ErrorCode::kLostPeer, "lost rank 3 in time", {}, ""}));
  EXPECT_FALSE(transport::is_receive_timeout({ErrorCode::kFailed, "rank 3 is gone", {}, ""}));
}

}  // namespace
}  // namespace tombolo::runtime
