#include "perform/transport/probe_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::transport {
namespace {

using ::testing::HasSubstr;

link::Payload bytes_of(const std::string& text) {
  link::Payload out;
  for (const char c : text) out.push_back(static_cast<std::byte>(c));
  return out;
}

TEST(ProbeMessages, ComeBackAsTheyWere) {
  const ProbeQuestion question{3, 16, "bbr", false, 0.5, 2};
  const auto asked = decode_probe_question(encode(question));
  ASSERT_TRUE(asked) << asked.error().text();
  EXPECT_EQ(*asked, question);

  const ProbeAnswer answer{123.5e6, 0.0405, {"cubic", "bbr"}};
  const auto answered = decode_probe_answer(encode(answer));
  ASSERT_TRUE(answered) << answered.error().text();
  EXPECT_EQ(*answered, answer);
}

TEST(ProbeMessages, RefuseWhatIsOutOfBounds) {
  const auto asked = [](const ProbeQuestion& question) {
    return decode_probe_question(encode(question)).has_value();
  };
  EXPECT_TRUE(asked({.cell = 999, .connections = 16, .warmup_s = 60, .counted_s = 60}));
  EXPECT_FALSE(asked({.cell = 1000}));
  EXPECT_FALSE(asked({.cell = -2}));
  EXPECT_FALSE(asked({.connections = 17}));
  EXPECT_FALSE(asked({.warmup_s = 61}));
  EXPECT_FALSE(asked({.counted_s = -1}));
  EXPECT_FALSE(asked({.congestion_control = "a-name-of-16-let"}));
  EXPECT_FALSE(decode_probe_answer(encode(ProbeAnswer{.bytes_per_second = -1})));
  EXPECT_FALSE(decode_probe_question(bytes_of("{")));
  EXPECT_THAT(decode_probe_answer(bytes_of(std::string(16 * 1024 + 1, ' '))).error().text(),
              HasSubstr("of at most 16384"));
}

TEST(ProbeMessages, RefuseARoundTripBelowZero) {
  EXPECT_FALSE(decode_probe_answer(encode(ProbeAnswer{.round_trip_s = -0.001})));
}

}  // namespace
}  // namespace tombolo::transport
