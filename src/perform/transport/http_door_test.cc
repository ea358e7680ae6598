#include "perform/transport/http_door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::transport {
namespace {

using ::testing::HasSubstr;

std::map<std::string, HttpPage> one_page(int& served) {
  return {{"/metrics", {"text/plain", [&served] { return fmt::format("served {}\n", ++served); }}}};
}

TEST(HttpDoor, ServesItsPagesAndNoOthers) {
  int served = 0;
  const auto door = HttpDoor::open({"127.0.0.1", 0}, one_page(served));
  ASSERT_TRUE(door) << door.error().text();
  EXPECT_EQ(http_page((*door)->address(), "/metrics").value(), "served 1\n");
  EXPECT_EQ(http_page((*door)->address(), "/metrics").value(), "served 2\n");
  const auto missing = http_page((*door)->address(), "/secrets");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("answers 404"));
}

TEST(HttpDoor, SaysThatItsPortIsTaken) {
  int served = 0;
  const auto door = HttpDoor::open({"127.0.0.1", 0}, one_page(served));
  ASSERT_TRUE(door);
  const auto second = HttpDoor::open((*door)->address(), one_page(served));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnusable);
}

TEST(HttpDoor, IsClosedWhenItGoes) {
  int served = 0;
  auto door = HttpDoor::open({"127.0.0.1", 0}, one_page(served));
  ASSERT_TRUE(door);
  const Address at = (*door)->address();
  door->reset();
  EXPECT_FALSE(http_page(at, "/metrics"));
}

TEST(HttpDoorDeathTest, APageHasAPathAndAnAuthor) {
  const std::map<std::string, HttpPage> nowhere = {{"metrics", {"", [] { return "x"; }}}};
  const std::map<std::string, HttpPage> nobody = {{"/metrics", {"", {}}}};
  EXPECT_DEATH(static_cast<void>(HttpDoor::open({}, nowhere)),
               "nobody writes the page \"metrics\"");
  EXPECT_DEATH(static_cast<void>(HttpDoor::open({}, nobody)),
               "nobody writes the page \"/metrics\"");
}

}  // namespace
}  // namespace tombolo::transport
