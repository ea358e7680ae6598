#include "perform/launch/doors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::launch {
namespace {

using ::testing::HasSubstr;

TEST(Doors, OfACoordinatorAreTheRendezvous) {
  EXPECT_EQ(*coordinator_doors({"127.0.0.5", 29511}, {}),
            (Doors{"127.0.0.5", "127.0.0.5", "127.0.0.5", {}}));
}

// RFC 5737: nobody has 203.0.113.7.
TEST(Doors, OfACoordinatorBehindTranslation) {
  const transport::Address outside{"203.0.113.7", 29511};
  const auto nowhere = coordinator_doors(outside, {});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().exit_code(), 2);
  EXPECT_THAT(nowhere.error().text(), HasSubstr("203.0.113.7 is no address of this host"));
  EXPECT_THAT(nowhere.error().text(), HasSubstr("try --listen"));
  EXPECT_EQ(*coordinator_doors(outside, {.listen = "127.0.0.3", .ports = {7000, 7009}}),
            (Doors{"127.0.0.3", "203.0.113.7", "127.0.0.3", {7000, 7009}}));
}

TEST(Doors, OfARankAreTheWayToTheRendezvous) {
  EXPECT_EQ(*rank_doors({"127.0.0.5", 29511}, {}),
            (Doors{"127.0.0.1", "127.0.0.1", "127.0.0.1", {}}));
  EXPECT_EQ(*rank_doors({"127.0.0.5", 29511}, {.listen = "0.0.0.0"}),
            (Doors{"0.0.0.0", "127.0.0.1", "127.0.0.1", {}}));
  EXPECT_EQ(*rank_doors({"127.0.0.5", 29511}, {.listen = "0.0.0.0", .advertised = "203.0.113.7"}),
            (Doors{"0.0.0.0", "203.0.113.7", "127.0.0.1", {}}));
}

TEST(Doors, ThatNobodyCanCallAreRefused) {
  EXPECT_THAT(coordinator_doors({"0.0.0.0", 29511}, {}).error().text(),
              HasSubstr("0.0.0.0:29511 is every address of a host"));
  EXPECT_THAT(rank_doors({"::", 29511}, {}).error().text(),
              HasSubstr("[::]:29511 is every address of a host"));
  EXPECT_THAT(rank_doors({"127.0.0.1", 1}, {.advertised = "0.0.0.0"}).error().text(),
              HasSubstr("--advertise 0.0.0.0"));
  EXPECT_THAT(rank_doors({"127.0.0.1", 1}, {.listen = "203.0.113.7"}).error().text(),
              HasSubstr("this host has no such address"));
}

}  // namespace
}  // namespace tombolo::launch
