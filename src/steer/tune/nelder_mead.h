// The minimum of a function within a box, by the simplex method of Nelder and Mead (1965): values
// only, no derivatives. The library is NLopt, whose variant stays in the box (Box 1965).
//
// It finds a local minimum from its starting point; callers start it at several. Deterministic: the
// same start gives the same answer.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace tombolo::tune {

struct Minimum {
  std::vector<double> at;
  double value = 0;
};

struct SimplexOptions {
  std::vector<double> low, high;  // the box; a coordinate with both equal is fixed
  double first_step = 0.1;        // of the box' width
  double tolerance = 1e-9;        // of coordinates, relative to the width
  int evaluations_max = 2000;
};

// `start` is moved into the box. What is not finite counts as worse than anything that is.
Minimum nelder_mead(const std::function<double(std::span<const double>)>& function,
                    std::vector<double> start, const SimplexOptions& options);

}  // namespace tombolo::tune
