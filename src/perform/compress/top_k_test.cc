#include "perform/compress/top_k.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/random.h"

namespace tombolo::compress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Coordinates, RoundTripAndRefuseWhatIsNone) {
  const ChosenNumbers elements{.length = 1'000'000'000,
                               .ids = {0, 32767, 32768, 65535, 999'999'999},
                               .values = {1, 2, 3, 4, 5}};
  std::vector<std::byte> message = encode_coordinates(elements);
  EXPECT_EQ(message.size(), 4u + 5 * 8);
  EXPECT_EQ(decode_coordinates(message, 1'000'000'000).value(), elements);
  EXPECT_FALSE(decode_coordinates(message, 999'999'999).has_value());
  message[4] = std::byte{0xff};  // 255, still ascending
  message[5] = std::byte{0xff};  // 65535, no longer
  EXPECT_FALSE(decode_coordinates(message, 1'000'000'000).has_value());
  message.pop_back();
  EXPECT_FALSE(decode_coordinates(message, 1'000'000'000).has_value());
  EXPECT_FALSE(decode_coordinates({}, 1).has_value());
}

TEST(TopK, SendsTheLargestAndKeepsTheRest) {
  const std::vector<float> gradient{1, -7, 3, 3, 0.5f, -3, 2, 0};
  std::vector<float> residual{0, 0, 0, 0, 4, 0, 0, 1};  // 4.5 and 1 with the gradient's
  const auto message = compress_top_k({.density = 0.5}, gradient, residual);
  ASSERT_TRUE(message);
  const ChosenNumbers sent = *decode_coordinates(*message, 8);
  EXPECT_THAT(sent.ids, ElementsAre(1, 2, 3, 4));  // of three with 3, the lower two
  EXPECT_THAT(sent.values, ElementsAre(-7, 3, 3, 4.5f));
  EXPECT_THAT(residual, ElementsAre(1, 0, 0, 0, 0, -3, 2, 1));
}

TEST(TopK, IsTheSortedOrdersBeginning) {
  Random random(7);
  std::vector<float> gradient(5000), residual(5000);
  for (float& each : gradient) each = static_cast<float>(random.normal());
  std::vector<std::pair<float, uint32_t>> order;
  for (uint32_t i = 0; i < gradient.size(); ++i) order.emplace_back(-std::abs(gradient[i]), i);
  std::sort(order.begin(), order.end());
  std::vector<uint32_t> expected;
  for (size_t i = 0; i < 50; ++i) expected.push_back(order[i].second);
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(decode_coordinates(*compress_top_k({}, gradient, residual), 5000)->ids, expected);
}

TEST(TopK, RefusesWhatIsNoNumber) {
  const std::vector<float> gradient{1, std::numeric_limits<float>::infinity()};
  std::vector<float> residual(2);
  const auto message = compress_top_k({}, gradient, residual);
  ASSERT_FALSE(message);
  EXPECT_THAT(message.error().text(), HasSubstr("1 numbers are not finite"));
}

TEST(TopK, OfNothingIsEmpty) {
  const auto message = compress_top_k({}, {}, {});
  ASSERT_TRUE(message);
  EXPECT_TRUE(decode_coordinates(*message, 0)->ids.empty());
}

}  // namespace
}  // namespace tombolo::compress
