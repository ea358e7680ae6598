#include "base/units.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace tombolo {
namespace {

// The algebra is checked by the compiler; that this file compiles is the test.
static_assert(std::is_same_v<decltype(Bytes{} / BytesPerSecond{}), Seconds>);
static_assert(std::is_same_v<decltype(Seconds{} * BytesPerSecond{}), Bytes>);
static_assert(std::is_same_v<decltype(Flops{} / FlopsPerSecond{}), Seconds>);
static_assert(std::is_same_v<decltype(DollarsPerSecond{} * Seconds{}), Dollars>);
static_assert(std::is_same_v<decltype(DollarsPerByte{} * Bytes{}), Dollars>);
static_assert(std::is_same_v<decltype(Bytes{} / Bytes{1}), double>);
template <typename A, typename B>
concept addable = requires(A a, B b) {
  a + b;
};
static_assert(addable<Bytes, Bytes> && !addable<Bytes, Seconds> && !addable<Bytes, double>);
static_assert(!std::is_convertible_v<double, Bytes> && !std::is_convertible_v<Bytes, double>);
static_assert(1_GiB > 1_GB && 1_GBps == 8_Gbps && 1000_ms == 1_s);

TEST(Units, AFormulaReadsAsOnPaper) {
  // 40 ms + 10 MB / (5 Gbps = 625e6 B/s) = 0.04 + 0.016 s
  const Seconds t = 40_ms + 10_MB / 5_Gbps;
  EXPECT_DOUBLE_EQ(t.value, 0.056);
}

template <typename Q>
void expect_parsed(std::string_view text, double value) {
  const Result<Q> parsed = parse_quantity<Q>(text);
  ASSERT_TRUE(parsed) << parsed.error().text();
  EXPECT_DOUBLE_EQ(parsed->value, value) << text;
}

TEST(Units, BitsAndBytesDecimalAndBinaryAreToldApart) {
  expect_parsed<BytesPerSecond>("5 Gbps", 625e6);
  expect_parsed<BytesPerSecond>("5 GBps", 5e9);
  expect_parsed<Bytes>("80 GB", 80e9);
  expect_parsed<Bytes>("80 GiB", 80.0 * (1 << 30));
  expect_parsed<Bytes>("1.5KiB", 1536);
}

TEST(Units, EveryDimensionHasItsSpellings) {
  expect_parsed<Seconds>("34ms", 0.034);
  expect_parsed<Seconds>("  2 min ", 120);
  expect_parsed<Seconds>("1e-3 s", 0.001);
  expect_parsed<Flops>("3 GFLOP", 3e9);
  expect_parsed<FlopsPerSecond>("312 TFLOPS", 312e12);
  expect_parsed<Dollars>("5 USD", 5);
  expect_parsed<DollarsPerSecond>("3.60 USD/device-hour", 0.001);
  expect_parsed<DollarsPerByte>("0.02 USD/GB", 0.02e-9);
}

TEST(Units, DatasheetsSpellThemOtherwise) {
  expect_parsed<BytesPerSecond>("900 GB/s", 900e9);
  expect_parsed<BytesPerSecond>("400 Gb/s", 50e9);
  expect_parsed<BytesPerSecond>("100Gbit/s", 12.5e9);
  expect_parsed<BytesPerSecond>("56 kbps", 7e3);
  expect_parsed<BytesPerSecond>("8 bit/s", 1);
  expect_parsed<Bytes>("64 kB", 64e3);
  expect_parsed<Seconds>("5 \u00b5s", 5e-6);
  expect_parsed<Seconds>("5 \u03bcs", 5e-6);
  expect_parsed<FlopsPerSecond>("989 TFLOP/s", 989e12);
}

template <typename Q>
std::string refusal(std::string_view text) {
  const Result<Q> parsed = parse_quantity<Q>(text);
  return parsed ? "accepted" : parsed.error().text();
}

TEST(Units, ARefusalShowsTheSpellingToUse) {
  EXPECT_EQ(refusal<Seconds>("34"), "\"34\" has no unit\n  try \"20 ms\"");
  EXPECT_EQ(
      refusal<BytesPerSecond>("5 Gbs"),
      "unknown unit \"Gbs\"\n"
      "  try \"5 Gbps\" (bits) or \"625 MBps\" (bytes), not \"5 Gb\"; the units here are bps, Bps, "
      "Kbps, KBps, Mbps, MBps, Gbps, GBps, Tbps, TBps");
  EXPECT_EQ(refusal<Bytes>("much"),
            "\"much\" does not begin with a finite number\n  try \"80 GB\" or \"80 GiB\"");
}

TEST(Units, WhatIsNoFiniteNumberIsRefused) {
  for (const char* text : {"", " ", "GB", "inf GB", "nan GB", "-inf GB", "1e999 GB", "+ 1 GB",
                           "0x10 GB", "1,5 GB", "1 gb", "1 GB extra", "1 G B"}) {
    EXPECT_NE(refusal<Bytes>(text), "accepted") << text;
  }
  // The number is finite, the quantity is not.
  EXPECT_EQ(refusal<Bytes>("1e308 TB"), "\"1e308 TB\" is too large\n  try \"80 GB\" or \"80 GiB\"");
}

TEST(Units, TheShortestSpellingIsWritten) {
  EXPECT_EQ(format(5_Gbps), "5 Gbps");
  EXPECT_EQ(format(34_ms), "34 ms");
  EXPECT_EQ(format(80_GiB), "80 GiB");
  EXPECT_EQ(format(1000_MB), "1 GB");
  EXPECT_EQ(format(Bytes{0}), "0 B");
  EXPECT_EQ(format(-5_ms), "-5 ms");
}

// Any finite double at all: random bits, in every dimension.
template <typename Q>
void expect_round_trips(Random random) {
  for (int i = 0; i < 5000; ++i) {
    const double value = std::bit_cast<double>(random.next());
    if (!std::isfinite(value)) continue;
    const std::string text = format(Q{value});
    const Result<Q> back = parse_quantity<Q>(text);
    ASSERT_TRUE(back) << text;
    ASSERT_EQ(std::bit_cast<uint64_t>(back->value), std::bit_cast<uint64_t>(value)) << text;
  }
}

TEST(Units, WhatIsWrittenReadsBackToTheSameDouble) {
  const Random random(11);
  expect_round_trips<Seconds>(random.stream("seconds"));
  expect_round_trips<Bytes>(random.stream("bytes"));
  expect_round_trips<BytesPerSecond>(random.stream("rates"));
  expect_round_trips<Flops>(random.stream("flops"));
  expect_round_trips<FlopsPerSecond>(random.stream("flop rates"));
  expect_round_trips<Dollars>(random.stream("dollars"));
  expect_round_trips<DollarsPerSecond>(random.stream("prices"));
  expect_round_trips<DollarsPerByte>(random.stream("traffic"));
}

TEST(Units, BriefTakesTheUnitThatSuitsTheSize) {
  EXPECT_EQ(brief(Seconds{0.0413}), "41.3 ms");
  EXPECT_EQ(brief(Seconds{59}), "59 s");
  EXPECT_EQ(brief(Seconds{7200}), "120 min");
  EXPECT_EQ(brief(Bytes{1.5e9}), "1.5 GB");
  EXPECT_EQ(brief(5_Gbps), "5 Gbps");
  EXPECT_EQ(brief(312_TFLOPS), "312 TFLOPS");
  EXPECT_EQ(brief(Bytes{0}), "0 B");
  EXPECT_EQ(brief(Seconds{0}), "0 s");
  EXPECT_EQ(brief(DollarsPerByte{0.02e-9}), "0.02 USD/GB");
  EXPECT_EQ(brief(DollarsPerSecond{2.1 / 3600}), "2.1 USD/device-hour");
}

TEST(Grouped, ThreeDigitsAtATime) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(65536), "65,536");
  EXPECT_EQ(grouped(1'000'000), "1,000,000");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(grouped(-1234), "-1,234");
}

}  // namespace
}  // namespace tombolo
