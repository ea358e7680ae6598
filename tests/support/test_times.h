// Instants and lengths in the units that tests count in.
#pragma once

#include "base/time.h"

namespace tombolo {

constexpr SimDuration us(int64_t n) { return {n * 1'000}; }
constexpr SimDuration ms(int64_t n) { return {n * 1'000'000}; }
constexpr SimTime at_us(int64_t n) { return {n * 1'000}; }
constexpr SimTime at_ms(int64_t n) { return {n * 1'000'000}; }
// Schedules on paper have slots; ours last a millisecond.
constexpr SimDuration slots(int64_t n) { return ms(n); }

}  // namespace tombolo
