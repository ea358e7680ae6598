// Quantities are types, so that the compiler checks formulas:
//
//   Seconds t = link.latency + size / link.bandwidth;     // Bytes / BytesPerSecond is Seconds
//
// A Quantity is a double in the base units second, byte, floating-point operation and US dollar. At
// the edges the unit is part of the text: parse_quantity<BytesPerSecond>("5 Gbps"). Bits and bytes,
// GB and GiB are told apart; a bare number is refused with the spelling to use.
#pragma once

#include <compare>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tombolo {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
// A count in a formula.
constexpr double real(int64_t n) { return static_cast<double>(n); }

// Exponents of second, byte, operation and dollar.
template <int T, int B, int F, int D>
struct Quantity {
  double value = 0;

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator+(Quantity o) const { return {value + o.value}; }
  constexpr Quantity operator-(Quantity o) const { return {value - o.value}; }
  constexpr Quantity operator-() const { return {-value}; }
  constexpr Quantity operator*(double k) const { return {value * k}; }
  constexpr Quantity operator/(double k) const { return {value / k}; }
  constexpr Quantity& operator+=(Quantity o) {
    value += o.value;
    return *this;
  }
  friend constexpr Quantity operator*(double k, Quantity q) { return {k * q.value}; }
};

namespace detail {
template <int T, int B, int F, int D>
constexpr auto make_quantity(double value) {
  if constexpr (T == 0 && B == 0 && F == 0 && D == 0) {
    return value;
  } else {
    return Quantity<T, B, F, D>{value};
  }
}
}  // namespace detail

template <int T, int B, int F, int D, int T2, int B2, int F2, int D2>
constexpr auto operator*(Quantity<T, B, F, D> a, Quantity<T2, B2, F2, D2> b) {
  return detail::make_quantity<T + T2, B + B2, F + F2, D + D2>(a.value * b.value);
}
template <int T, int B, int F, int D, int T2, int B2, int F2, int D2>
constexpr auto operator/(Quantity<T, B, F, D> a, Quantity<T2, B2, F2, D2> b) {
  return detail::make_quantity<T - T2, B - B2, F - F2, D - D2>(a.value / b.value);
}

using Seconds = Quantity<1, 0, 0, 0>;
using Bytes = Quantity<0, 1, 0, 0>;
using BytesPerSecond = Quantity<-1, 1, 0, 0>;
using Flops = Quantity<0, 0, 1, 0>;
using FlopsPerSecond = Quantity<-1, 0, 1, 0>;
using Dollars = Quantity<0, 0, 0, 1>;
using DollarsPerSecond = Quantity<-1, 0, 0, 1>;  // for one device: "2.10 USD/device-hour"
using DollarsPerByte = Quantity<0, -1, 0, 1>;    // "0.02 USD/GB"

// One spelling and what it is worth in base units.
struct Unit {
  std::string_view name;
  double factor;
};

// The spellings of a dimension, smallest first, and an example for error messages.
struct UnitTable {
  std::span<const Unit> units;
  std::string_view example;
};
template <typename Q>
const UnitTable& unit_table();
template <>
const UnitTable& unit_table<Seconds>();
template <>
const UnitTable& unit_table<Bytes>();
template <>
const UnitTable& unit_table<BytesPerSecond>();
template <>
const UnitTable& unit_table<Flops>();
template <>
const UnitTable& unit_table<FlopsPerSecond>();
template <>
const UnitTable& unit_table<Dollars>();
template <>
const UnitTable& unit_table<DollarsPerSecond>();
template <>
const UnitTable& unit_table<DollarsPerByte>();

namespace detail {
Result<double> parse_quantity(std::string_view text, const UnitTable& table);
std::string format_quantity(double value, const UnitTable& table);
std::string format_short(double value, const UnitTable& table);
}  // namespace detail

// "5 Gbps", "34ms", "80 GiB" -> base units. Fails on a missing or unknown unit and on non-finite
// numbers.
template <typename Q>
Result<Q> parse_quantity(std::string_view text) {
  return detail::parse_quantity(text, unit_table<Q>()).map([](double v) { return Q{v}; });
}

// The shortest spelling that parse_quantity reads back to exactly the same double.
template <int T, int B, int F, int D>
std::string format(Quantity<T, B, F, D> q) {
  return detail::format_quantity(q.value, unit_table<Quantity<T, B, F, D>>());
}

// For people: about three digits in the unit that suits the size, as in "41.3 ms".
template <int T, int B, int F, int D>
std::string brief(Quantity<T, B, F, D> q) {
  return detail::format_short(q.value, unit_table<Quantity<T, B, F, D>>());
}

// 65536 as "65,536".
std::string grouped(int64_t number);

inline namespace literals {
#define TOMBOLO_LITERAL(suffix, type, factor)                \
  constexpr type operator""_##suffix(long double v) {        \
    return {static_cast<double>(v) * (factor)};              \
  }                                                          \
  constexpr type operator""_##suffix(unsigned long long v) { \
    return {static_cast<double>(v) * (factor)};              \
  }
TOMBOLO_LITERAL(s, Seconds, 1)
TOMBOLO_LITERAL(ms, Seconds, 1e-3)
TOMBOLO_LITERAL(us, Seconds, 1e-6)
TOMBOLO_LITERAL(ns, Seconds, 1e-9)
TOMBOLO_LITERAL(B, Bytes, 1)
TOMBOLO_LITERAL(KB, Bytes, 1e3)
TOMBOLO_LITERAL(MB, Bytes, 1e6)
TOMBOLO_LITERAL(GB, Bytes, 1e9)
TOMBOLO_LITERAL(KiB, Bytes, 1024.0)
TOMBOLO_LITERAL(MiB, Bytes, 1048576.0)
TOMBOLO_LITERAL(GiB, Bytes, 1073741824.0)
TOMBOLO_LITERAL(Mbps, BytesPerSecond, 125e3)
TOMBOLO_LITERAL(Gbps, BytesPerSecond, 125e6)
TOMBOLO_LITERAL(MBps, BytesPerSecond, 1e6)
TOMBOLO_LITERAL(GBps, BytesPerSecond, 1e9)
TOMBOLO_LITERAL(TBps, BytesPerSecond, 1e12)
TOMBOLO_LITERAL(GFLOPS, FlopsPerSecond, 1e9)
TOMBOLO_LITERAL(TFLOPS, FlopsPerSecond, 1e12)
#undef TOMBOLO_LITERAL
}  // namespace literals

}  // namespace tombolo
