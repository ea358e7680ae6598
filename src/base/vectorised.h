// Before a function whose loops are to be done in lanes: g++ does little of that below -O3, and no square
// root that may set errno. Lanes round as one number does. Nothing is inlined into such a function that
// does not say the same, not even std::bit_cast.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
#define TOMBOLO_VECTORISED \
  __attribute__((optimize("O3", "no-math-errno", "no-trapping-math"), noinline))
#else
#define TOMBOLO_VECTORISED
#endif
