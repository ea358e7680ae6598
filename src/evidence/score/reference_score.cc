#include "evidence/score/reference_score.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/check.h"
#include "base/quantiles.h"

namespace tombolo::score {
namespace {

struct Order {
  std::vector<double> predicted, measured;
};

void score_row(const ScoredRow& scored, ReferenceScore& out) {
  const published::ReferenceRow& row = *scored.row;
  if (!scored.predicted) {
    ++out.refused;
    return;
  }
  const bool fits = scored.predicted->fits;
  if (row.out_of_memory) {
    ++out.out_of_memory;
    out.out_of_memory_predicted += fits ? 0 : 1;
  } else {
    out.wrongly_out_of_memory += fits ? 0 : 1;
  }
}

ErrorSummary errors_of(const std::vector<ScoredRow>& rows,
                       std::optional<double> (ScoredRow::*error)() const) {
  std::vector<double> errors;
  for (const ScoredRow& scored : rows) {
    if (const auto value = (scored.*error)(); value && !scored.row->ordering_only) {
      errors.push_back(*value);
    }
  }
  return summarise(errors);
}

void score_order(ReferenceScore& out) {
  std::map<std::string, Order> groups;
  for (const ScoredRow& scored : out.rows) {
    if (!scored.iteration_error()) continue;
    Order& group = groups[scored.row->group];
    const auto sequences = static_cast<double>(scored.row->job.training.global_batch);
    group.predicted.push_back(scored.predicted->iteration.value / sequences);
    group.measured.push_back(scored.row->iteration->value / sequences);
  }
  double sum = 0;
  for (const auto& [name, group] : groups) {
    const std::optional<double> tau = kendall_tau_b(group.predicted, group.measured);
    if (!tau) continue;
    const auto n = static_cast<int64_t>(group.measured.size());
    out.pairs += n * (n - 1) / 2;
    sum += *tau * static_cast<double>(n * (n - 1) / 2);
  }
  if (out.pairs > 0) out.tau = sum / static_cast<double>(out.pairs);
}

}  // namespace

std::optional<double> ScoredRow::iteration_error() const {
  CHECK(row, "a score without a measurement");
  if (!predicted || !row->iteration) return std::nullopt;
  return predicted->iteration / *row->iteration - 1;
}

std::optional<double> ScoredRow::memory_error() const {
  CHECK(row, "a score without a measurement");
  if (!predicted || !row->memory) return std::nullopt;
  return predicted->memory / *row->memory - 1;
}

ErrorSummary summarise(std::span<const double> errors) {
  ErrorSummary out;
  out.count = static_cast<int64_t>(errors.size());
  if (errors.empty()) return out;
  const auto n = static_cast<double>(errors.size());
  std::vector<double> sizes;
  for (const double error : errors) {
    sizes.push_back(std::abs(error));
    out.bias += error / n;
    out.mean += std::abs(error) / n;
  }
  out.largest = *std::max_element(sizes.begin(), sizes.end());
  out.median = median(std::move(sizes));
  return out;
}

std::vector<ReferenceScore> score(const std::vector<published::ReferenceRow>& rows,
                                  const Predictor& predict) {
  CHECK(predict, "{} measurements, and no law", rows.size());
  std::vector<ReferenceScore> out;
  std::map<std::string, size_t> places;
  for (const published::ReferenceRow& row : rows) {
    const auto [place, fresh] = places.emplace(row.table, out.size());
    if (fresh) out.emplace_back().table = row.table;
    ReferenceScore& table = out[place->second];
    ScoredRow scored{&row, std::nullopt, {}};
    Result<Predicted> predicted = predict(row.job);
    if (predicted) {
      scored.predicted = *predicted;
    } else {
      scored.refusal = predicted.error().message;
    }
    score_row(scored, table);
    table.rows.push_back(std::move(scored));
  }
  for (ReferenceScore& table : out) {
    table.iteration = errors_of(table.rows, &ScoredRow::iteration_error);
    table.memory = errors_of(table.rows, &ScoredRow::memory_error);
    score_order(table);
  }
  return out;
}

std::optional<double> kendall_tau_b(std::span<const double> x, std::span<const double> y) {
  CHECK(x.size() == y.size(), "{} and {} values to compare", x.size(), y.size());
  int64_t agreement = 0, untied_x = 0, untied_y = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const int of_x = (x[i] > x[j]) - (x[i] < x[j]);
      const int of_y = (y[i] > y[j]) - (y[i] < y[j]);
      agreement += of_x * of_y;
      untied_x += of_x != 0;
      untied_y += of_y != 0;
    }
  }
  if (untied_x == 0 || untied_y == 0) return std::nullopt;
  return static_cast<double>(agreement) /
         std::sqrt(static_cast<double>(untied_x) * static_cast<double>(untied_y));
}

Result<std::vector<ScoredMemory>> score_memory(const std::vector<published::ReferenceMemory>& rows,
                                               const Predictor& predict) {
  CHECK(predict, "{} measurements, and no law", rows.size());
  std::vector<ScoredMemory> out;
  for (const published::ReferenceMemory& row : rows) {
    const Predicted job = TRY(predict(row.job));
    const bool state = row.kind == published::ReferenceMemory::Kind::kState;
    const Bytes part = state ? job.state : job.activations;
    Bytes unit = 1_GiB;
    if (row.baseline) unit = TRY(predict(*row.baseline)).activations / 100;
    if (!(part.value > 0 && unit.value > 0)) {
      return unusable(row.name + ": the law does not keep kinds of memory apart");
    }
    out.push_back({&row, part / unit});
  }
  return out;
}

}  // namespace tombolo::score
