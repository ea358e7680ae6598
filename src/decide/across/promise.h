// Which layouts to simulate, where simulating all of them takes too long.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "decide/search/search.h"
#include "spec/plan/job.h"
#include "spec/plan/plan.h"

namespace tombolo::across {

// A layout by the closed form, before it is simulated.
struct Promise {
  double score = 0;   // by the objective, of an iteration: s, or USD where there are prices
  double passes = 0;  // what a simulation takes (sim::passes_of)
};

// 1F1B in the slowest pipeline, with all gradients there.
Seconds without_exchange(const plan::Plan& plan);

// Of whole pipelines: 1F1B in the slowest of them (cost::pace_of), and dense gradients of all stages
// behind it. What other modes send may hide, so that they promise too much, and fewer are left out.
// `closed_form` is the iteration, where a search has said it. As make_plan() fails.
Result<Promise> promise_of(const plan::Job& job, std::optional<Seconds> closed_form,
                           search::Objective objective);

// Of the layouts of each name, the most promising first: those are left out that are more than
// kClosedFormOff behind the best so far, by its simulation and by its promise.
// Ways.LeavingOutLosesNothing holds it against simulating all.
class Contest {
 public:
  Contest(std::vector<std::string> names, std::vector<Promise> promises);

  // What to simulate side by side, of each name that is not decided one, and kAtOnce once there is one to beat;
  // empty: all are.
  std::vector<size_t> next();
  void take(size_t which, double score);
  int64_t left_out() const { return left_out_; }

 private:
  struct Name {
    std::vector<size_t> waiting;                               // the most promising last
    double best = std::numeric_limits<double>::infinity();     // simulated
    double to_beat = std::numeric_limits<double>::infinity();  // by a promise
  };
  const std::vector<std::string> names_;
  const std::vector<Promise> promises_;
  std::map<std::string, Name> by_name_;
  int64_t left_out_ = 0;
};
inline constexpr double kClosedFormOff = 0.2;
inline constexpr size_t kAtOnce = 2;

}  // namespace tombolo::across
