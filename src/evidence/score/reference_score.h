// How far a law is from published measurements: errors by table, and whether it orders them right.
//
// An error is predicted / measured - 1, of the iteration time and of the memory of one device.
// Ordering is Kendall's tau-b of the time per sequence within groups of comparable rows, averaged
// over groups by their pairs: 1 is the measured order, 0 chance, -1 the reverse. A planner needs
// the order more than the time.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "predict/published/reference.h"

namespace tombolo::score {

// What a law says about one job.
struct Predicted {
  Seconds iteration;
  Bytes memory;  // of the fullest device
  bool fits = true;
  Bytes state = {};        // of memory: weights, gradients, optimizer
  Bytes activations = {};  // of memory: kept for the backward pass
};
using Predictor = std::function<Result<Predicted>(const plan::Job&)>;

struct ScoredRow {
  const published::ReferenceRow* row = nullptr;
  std::optional<Predicted> predicted;  // left out: the law refused it
  std::string refusal;

  // Predicted / measured - 1; left out where either is.
  std::optional<double> iteration_error() const;
  std::optional<double> memory_error() const;
};

// Errors of one quantity over a table. All 0 where nothing was counted.
struct ErrorSummary {
  int64_t count = 0;
  double mean = 0;    // of absolute errors
  double median = 0;  // of absolute errors
  double largest = 0;
  double bias = 0;  // mean of errors
};
ErrorSummary summarise(std::span<const double> errors);

struct ReferenceScore {
  std::string table;
  std::vector<ScoredRow> rows;  // all, in the order given
  int64_t refused = 0;
  ErrorSummary iteration;  // without rows that are for ordering only
  ErrorSummary memory;
  int64_t out_of_memory = 0;            // rows that ran out of memory,
  int64_t out_of_memory_predicted = 0;  // and are predicted not to fit
  int64_t wrongly_out_of_memory = 0;    // rows that ran, but are predicted not to fit
  double tau = 0;                       // mean over groups, weighted by pairs
  int64_t pairs = 0;                    // on which tau rests
};

// One score per table, in the order in which tables first appear. The rows must outlive it. Each
// row is predicted once; O(rows + sum of squares of groups).
std::vector<ReferenceScore> score(const std::vector<published::ReferenceRow>& rows,
                                  const Predictor& predict);

// Kendall's tau-b: (concordant - discordant) pairs over the geometric mean of the pairs that are
// not tied in x and those not tied in y. Kendall 1945, The treatment of ties in ranking problems.
// Left out where either is constant. O(n^2).
std::optional<double> kendall_tau_b(std::span<const double> x, std::span<const double> y);

struct ScoredMemory {
  const published::ReferenceMemory* row = nullptr;
  double predicted = 0;  // in the unit of `published`
  double error() const { return predicted / row->published - 1; }
};

// Fails where the law does, or keeps no kinds of memory apart. The rows must outlive the answer.
Result<std::vector<ScoredMemory>> score_memory(const std::vector<published::ReferenceMemory>& rows,
                                               const Predictor& predict);

}  // namespace tombolo::score
