#include "perform/kernels/activity.h"

#include <gtest/gtest.h>

namespace tombolo::kernels {
namespace {

using For = Activity::For;

TEST(Activity, WhoHasNotBegunOrHasEndedWaits) {
  Activity activity;
  EXPECT_TRUE(activity.report().waits);
  activity.begin();
  EXPECT_FALSE(activity.report().waits);
  activity.end();
  EXPECT_TRUE(activity.report().waits);
}

TEST(Activity, WaitsNest) {
  Activity activity;
  activity.begin();
  {
    const Activity::Wait outer(&activity);
    { const Activity::Wait inner(&activity); }
    EXPECT_TRUE(activity.report().waits);
  }
  EXPECT_FALSE(activity.report().waits);
  const Activity::Wait of_nobody(nullptr);
}

// What the exchange's thread does counts while the performing thread waits for it.
TEST(Activity, AnExchangeThatHangsIsNoWait) {
  Activity activity;
  activity.begin();
  {
    const Activity::Wait for_a_message(&activity, For::kOthers, Activity::Thread::kExchange);
    EXPECT_FALSE(activity.report().waits) << "the performing thread computes";
  }
  const Activity::Wait for_the_exchange(&activity, For::kExchange);
  EXPECT_FALSE(activity.report().waits) << "an update is computed";
  const Activity::Wait for_a_message(&activity, For::kOthers, Activity::Thread::kExchange);
  EXPECT_TRUE(activity.report().waits);
}

// Asks what is reported while it waits.
class AskingMessenger : public Messenger {
 public:
  explicit AskingMessenger(const Activity& activity) : activity_(activity) {}
  Status send(int32_t, link::Tag, link::Payload) override { return {}; }
  Result<Came> receive_any(std::span<const Awaited>) override {
    EXPECT_TRUE(activity_.report().waits);
    return Came{};
  }

 private:
  const Activity& activity_;
};

TEST(Activity, WhoWaitsForAMessageWaitsAndItsComingIsProgress) {
  Activity activity;
  activity.begin();
  AskingMessenger asking(activity);
  WatchedMessenger watched(asking, activity);
  EXPECT_TRUE(watched.receive(1, {1, 0}));
  EXPECT_EQ(activity.report().done, 1);
  EXPECT_FALSE(activity.report().waits);
}

}  // namespace
}  // namespace tombolo::kernels
