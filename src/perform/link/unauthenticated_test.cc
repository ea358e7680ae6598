#include "perform/link/unauthenticated.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "support/seeds.h"

namespace tombolo::link {
namespace {

constexpr SimDuration kOneMillisecond{1'000'000};
const Unauthenticated::Options kFew{.total = 4, .per_address = 3};

TEST(Unauthenticated, TheOldestSilentOneGoesAndOnlyWhenItHadItsTime) {
  Unauthenticated strangers(kFew);
  SimTime now;
  for (Unauthenticated::Id id = 1; id <= 4; ++id) EXPECT_FALSE(strangers.add(id, "a", now));
  EXPECT_EQ(strangers.room_at(now), now + kOneMillisecond * 100);
  strangers.spoke(1);
  now = now + kOneMillisecond * 100;
  EXPECT_EQ(strangers.room_at(now), now);
  EXPECT_EQ(strangers.add(5, "a", now), 2u);
  strangers.remove(3);  // a member
  EXPECT_EQ(strangers.add(6, "a", now), 4u) << "one address has its share";
  EXPECT_EQ(strangers.size(), 3u);
}

TEST(Unauthenticated, AFloodTakesOnlyItsOwnPlaces) {
  Unauthenticated strangers(kFew);
  SimTime now;
  EXPECT_FALSE(strangers.add(1, "honest", now));
  now = now + kOneMillisecond * 200;  // it is the oldest by far, and slow
  for (Unauthenticated::Id id = 2; id <= 50; ++id) {
    now = std::max(now, strangers.room_at(now));
    if (id > 4) now = now + kOneMillisecond * 100;
    EXPECT_NE(strangers.add(id, "flood", now), 1u);
  }
  EXPECT_EQ(strangers.size(), 4u);
}

// Whatever comes: never more than the total, never the newest, and there is always room soon.
TEST(Unauthenticated, AreBoundedAndMoveOn) {
  for (uint64_t seed = 0; seed < seeds(200, 10'000); ++seed) {
    Random random = Random(seed).stream("strangers");
    Unauthenticated strangers({.total = 8, .per_address = 5});
    SimTime now;
    std::map<Unauthenticated::Id, SimTime> here;
    for (Unauthenticated::Id id = 1; id < 200; ++id) {
      now = now + kOneMillisecond * static_cast<int64_t>(random.below(40));
      ASSERT_LE(strangers.room_at(now), now + kOneMillisecond * 1000);
      now = strangers.room_at(now);
      const auto goes = strangers.add(id, std::to_string(random.below(3)), now);
      if (goes) {
        ASSERT_NE(*goes, id);
        ASSERT_EQ(here.count(*goes), 1u);
        ASSERT_GE(now - here[*goes], kOneMillisecond * 100) << "seed " << seed;
        here.erase(*goes);
      }
      here[id] = now;
      ASSERT_LE(strangers.size(), 8u);
      ASSERT_EQ(strangers.size(), here.size());
      if (random.below(3) == 0) strangers.spoke(id);
      if (random.below(4) == 0) {
        strangers.remove(here.begin()->first);
        here.erase(here.begin());
      }
    }
  }
}

}  // namespace
}  // namespace tombolo::link
