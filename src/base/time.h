// Time as integers: SimTime is an instant, SimDuration a span, both in nanoseconds.
//
// Integers make simulations reproducible: (a + b) + c == a + (b + c), on every compiler. Formulas
// use Seconds (units.h) and become a SimDuration at one place per law, which states its rounding.
// The same types carry measured time, as nanoseconds since an origin that all ranks share.
#pragma once

#include <compare>
#include <cstdint>

#include "base/units.h"

namespace tombolo {

struct SimDuration {
  int64_t ns = 0;
  constexpr auto operator<=>(const SimDuration&) const = default;
  constexpr SimDuration operator+(SimDuration o) const { return {ns + o.ns}; }
  constexpr SimDuration operator-(SimDuration o) const { return {ns - o.ns}; }
  constexpr SimDuration operator*(int64_t k) const { return {ns * k}; }
  constexpr SimDuration& operator+=(SimDuration o) {
    ns += o.ns;
    return *this;
  }
};

struct SimTime {
  int64_t ns = 0;
  constexpr auto operator<=>(const SimTime&) const = default;
  constexpr SimTime operator+(SimDuration d) const { return {ns + d.ns}; }
  constexpr SimTime operator-(SimDuration d) const { return {ns - d.ns}; }
  constexpr SimDuration operator-(SimTime o) const { return {ns - o.ns}; }
};

constexpr Seconds seconds(SimDuration d) { return Seconds{static_cast<double>(d.ns) * 1e-9}; }

// To the nearest nanosecond, halves away from zero; CHECKs that the span is below 290 years.
SimDuration round_to_ns(Seconds s);

}  // namespace tombolo
