#include "base/lone_number.h"

#include <gtest/gtest.h>

namespace tombolo {
namespace {

TEST(LoneNumber, CountsInTheUnitThatIsNamed) {
  EXPECT_EQ(parse_lone_number<Seconds>("5", "s"), 5_s);
  EXPECT_EQ(parse_lone_number<Seconds>(" 0.5 ", "s"), Seconds{0.5});
  EXPECT_EQ(parse_lone_number<BytesPerSecond>("193", "Mbps"), 193_Mbps);
}

TEST(LoneNumber, AUnitIsHeeded) {
  EXPECT_EQ(parse_lone_number<Seconds>("200 ms", "s"), 200_ms);
  EXPECT_FALSE(parse_lone_number<Seconds>("5 Mbps", "s"));
}

TEST(LoneNumber, WhatIsNoFiniteNumberIsRefused) {
  for (const char* text : {"", " ", "nan", "inf", "soon", "5 5"}) {
    EXPECT_FALSE(parse_lone_number<Seconds>(text, "s")) << text;
  }
}

}  // namespace
}  // namespace tombolo
