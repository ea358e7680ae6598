#include "perform/launch/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::launch {
namespace {

using ::testing::HasSubstr;

link::Payload bytes_of(std::string_view text) {
  link::Payload out;
  for (const char c : text) out.push_back(static_cast<std::byte>(c));
  return out;
}

TEST(ControlMessages, ComeBackAsTheyWere) {
  const auto hello = decode(encode(Hello{.pid = 42, .address = "127.0.0.1:4711"}));
  ASSERT_TRUE(hello) << hello.error().text();
  EXPECT_EQ(std::get<Hello>(*hello).address, "127.0.0.1:4711");

  const auto progress =
      decode(encode(ProgressReport{{.iteration = 3, .start = {5}, .end = {9}, .loss = 0.1}}));
  ASSERT_TRUE(progress) << progress.error().text();
  EXPECT_EQ(std::get<ProgressReport>(*progress).report.loss, 0.1) << "to the last bit";
  EXPECT_EQ(std::get<ProgressReport>(*progress).report.end.ns, 9);

  const auto silent = decode(encode(ProgressReport{{.iteration = 3}}));
  EXPECT_FALSE(std::get<ProgressReport>(*silent).report.loss);

  const Error error{ErrorCode::kUnusable, "disk full", {"writing"}, "space"};
  const auto failure = decode(encode(Failure{error}));
  ASSERT_TRUE(failure) << failure.error().text();
  EXPECT_EQ(std::get<Failure>(*failure).error.text(), error.text());
  EXPECT_EQ(std::get<Failure>(*failure).error.code, ErrorCode::kUnusable);

  const auto lease = decode(
      encode(LeaseGrant{{.epoch = 3, .sent = {12}, .length = {3'000'000'000}, .working = true}}));
  ASSERT_TRUE(lease) << lease.error().text();
  EXPECT_EQ(std::get<LeaseGrant>(*lease).grant.epoch, 3u);
  EXPECT_EQ(std::get<LeaseGrant>(*lease).grant.length.ns, 3'000'000'000);
  EXPECT_TRUE(std::get<LeaseGrant>(*lease).grant.working);

  EXPECT_TRUE(std::holds_alternative<Ready>(*decode(encode(Ready{}))));
  EXPECT_TRUE(std::holds_alternative<Finished>(*decode(encode(Finished{}))));
}

TEST(ControlMessages, GarbageIsRefused) {
  EXPECT_FALSE(decode(bytes_of("")));
  EXPECT_FALSE(decode(bytes_of("[1]")));
  EXPECT_FALSE(decode(bytes_of(R"({"hello": {"pid": 1, "address": 70000}})")));
  EXPECT_FALSE(decode(bytes_of(R"({"beat": {"epoch": -1, "sent_ns": 0}})")));
  EXPECT_FALSE(decode(bytes_of(R"({"failure": {"code": 9, "message": ""}})")));
  EXPECT_THAT(decode(bytes_of(R"({"dance": {}})")).error().text(),
              HasSubstr("unknown kind \"dance\""));
}

}  // namespace
}  // namespace tombolo::launch
