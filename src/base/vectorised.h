// Put before a function whose loops are to be vectorised: below -O3 g++ vectorises little, and no square
// root that may set errno. Lanes round as a single number does. Functions without this attribute, even
// std::bit_cast, are not inlined into one that has it.
#pragma once

#if defined(__GNUC__) && !defined(__clang__)
#define TOMBOLO_VECTORISED \
  __attribute__((optimize("O3", "no-math-errno", "no-trapping-math"), noinline))
#else
#define TOMBOLO_VECTORISED
#endif
