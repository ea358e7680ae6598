#include "perform/transport/refusal_lines.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tombolo::transport {
namespace {

constexpr SimDuration kSecond{1'000'000'000};

TEST(RefusalLines, SayOneOfAKindAMinute) {
  RefusalLines lines;
  SimTime now{5'000'000'000};
  const auto add = [&](const std::string& reason) {
    return lines.add("refused a connection", "10.0.0.9:5", reason, now).value_or("");
  };
  EXPECT_EQ(add("rank 1 is there"), "refused a connection from 10.0.0.9:5: rank 1 is there");
  EXPECT_EQ(add("its token differs"), "refused a connection from 10.0.0.9:5: its token differs");
  for (int second = 1; second < 60; ++second) {
    now = now + kSecond;
    EXPECT_EQ(add(fmt::format("rank {} is there", second)), "");
  }
  now = now + kSecond;
  EXPECT_EQ(add("rank 3 is there"),
            "refused a connection from 10.0.0.9:5: rank 3 is there (59 more like it since the last "
            "such line)");
  EXPECT_EQ(add("its token differs"), "refused a connection from 10.0.0.9:5: its token differs");
}

TEST(RefusalLines, HaveRoomForWhatStrangersMakeUp) {
  RefusalLines lines;
  int said = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::string made_up(1 + static_cast<size_t>(i % 1000), static_cast<char>('a' + i % 26));
    said += lines.add("refused", "10.0.0.9:5", made_up, SimTime{1}).has_value();
  }
  EXPECT_EQ(said, 65) << "64 kinds, and all others are one";
}

}  // namespace
}  // namespace tombolo::transport
