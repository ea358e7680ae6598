#include "perform/join/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::join {
namespace {

using ::testing::HasSubstr;

TEST(ListenAddress, OfACoordinatorAreTheRendezvous) {
  EXPECT_EQ(*coordinator_address({"127.0.0.5", 29511}, {}),
            (ListenAddress{"127.0.0.5", "127.0.0.5", "127.0.0.5", {}}));
}

// RFC 5737: no host has 203.0.113.7.
TEST(ListenAddress, OfACoordinatorBehindTranslation) {
  const transport::Address outside{"203.0.113.7", 29511};
  const auto nowhere = coordinator_address(outside, {});
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().exit_code(), 2);
  EXPECT_THAT(nowhere.error().text(), HasSubstr("203.0.113.7 is no address of this host"));
  EXPECT_THAT(nowhere.error().text(), HasSubstr("try --listen"));
  EXPECT_EQ(*coordinator_address(outside, {.listen = "127.0.0.3", .ports = {7000, 7009}}),
            (ListenAddress{"127.0.0.3", "203.0.113.7", "127.0.0.3", {7000, 7009}}));
}

TEST(ListenAddress, OfARankAreTheWayToTheRendezvous) {
  EXPECT_EQ(*rank_address({"127.0.0.5", 29511}, {}),
            (ListenAddress{"127.0.0.1", "127.0.0.1", "127.0.0.1", {}}));
  EXPECT_EQ(*rank_address({"127.0.0.5", 29511}, {.listen = "0.0.0.0"}),
            (ListenAddress{"0.0.0.0", "127.0.0.1", "127.0.0.1", {}}));
  EXPECT_EQ(*rank_address({"127.0.0.5", 29511}, {.listen = "0.0.0.0", .advertised = "203.0.113.7"}),
            (ListenAddress{"0.0.0.0", "203.0.113.7", "127.0.0.1", {}}));
}

TEST(ListenAddress, ThatNobodyCanCallAreRefused) {
  EXPECT_THAT(coordinator_address({"0.0.0.0", 29511}, {}).error().text(),
              HasSubstr("0.0.0.0:29511 is every address of a host"));
  EXPECT_THAT(rank_address({"::", 29511}, {}).error().text(),
              HasSubstr("[::]:29511 is every address of a host"));
  EXPECT_THAT(rank_address({"127.0.0.1", 1}, {.advertised = "0.0.0.0"}).error().text(),
              HasSubstr("--advertise 0.0.0.0"));
  EXPECT_THAT(rank_address({"127.0.0.1", 1}, {.listen = "203.0.113.7"}).error().text(),
              HasSubstr("this host has no such address"));
}

}  // namespace
}  // namespace tombolo::join
