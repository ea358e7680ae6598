#include "steer/tune/nelder_mead.h"

#include <nlopt.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/check.h"
#include "base/units.h"

namespace tombolo::tune {
namespace {

constexpr double kWorst = 1e300;

// The coordinates that may move, from 0 to 1 across the box: NLopt's variant needs room in each.
struct SimplexSearch {
  const std::function<double(std::span<const double>)>& function;
  const SimplexOptions& options;
  std::vector<size_t> free;
  std::vector<double> point;  // in the box
  Minimum best;
  int evaluations = 0;

  void place(const double* x) {
    for (size_t k = 0; k < free.size(); ++k) {
      const double low = options.low[free[k]], high = options.high[free[k]];
      point[free[k]] = std::clamp(low + x[k] * (high - low), low, high);
    }
  }
  double value_here() {
    ++evaluations;
    double value = function(point);
    if (!std::isfinite(value) || value > kWorst) value = kWorst;
    if (best.at.empty() || value < best.value) best = {point, value};
    return value;
  }
};

double evaluate(unsigned, const double* x, double*, void* data) {
  auto& search = *static_cast<SimplexSearch*>(data);
  search.place(x);
  return search.value_here();
}

}  // namespace

Minimum nelder_mead(const std::function<double(std::span<const double>)>& function,
                    std::vector<double> start, const SimplexOptions& options) {
  CHECK(start.size() == options.low.size() && start.size() == options.high.size(),
        "{} coordinates in a box of {} and {}", start.size(), options.low.size(),
        options.high.size());
  SimplexSearch search{function, options, {}, std::move(start), {}};
  for (size_t i = 0; i < search.point.size(); ++i) {
    const double low = options.low[i], high = options.high[i];
    CHECK(low <= high, "coordinate {} lies between {} and {}", i, low, high);
    search.point[i] = std::clamp(search.point[i], low, high);
    if (low == high) continue;
    search.free.push_back(i);
  }
  search.value_here();
  if (search.free.empty()) return search.best;
  std::vector<double> x(search.free.size());
  const auto n = static_cast<unsigned>(search.free.size());
  const std::unique_ptr<nlopt_opt_s, void (*)(nlopt_opt)> opt(nlopt_create(NLOPT_LN_NELDERMEAD, n),
                                                              nlopt_destroy);
  CHECK(opt, "NLopt has no Nelder-Mead of {} coordinates", n);
  nlopt_set_min_objective(opt.get(), evaluate, &search);
  nlopt_set_lower_bounds1(opt.get(), 0);
  nlopt_set_upper_bounds1(opt.get(), 1);
  nlopt_set_initial_step1(opt.get(), options.first_step);
  nlopt_set_xtol_abs1(opt.get(), options.tolerance);
  // A simplex that met a side of the box has lost a dimension: a new one around the best point goes
  // along that side. Until one finds nothing better.
  for (double before = kInfinity; search.best.value < before;) {
    const int left = options.evaluations_max - search.evaluations;
    if (left <= 0) break;
    before = search.best.value;
    for (size_t k = 0; k < search.free.size(); ++k) {
      const size_t i = search.free[k];
      x[k] = (search.best.at[i] - options.low[i]) / (options.high[i] - options.low[i]);
    }
    nlopt_set_maxeval(opt.get(), left);
    double value = 0;
    // That it stopped for its tolerance, its evaluations or its rounding makes no difference to us.
    nlopt_optimize(opt.get(), x.data(), &value);
  }
  return search.best;
}

}  // namespace tombolo::tune
