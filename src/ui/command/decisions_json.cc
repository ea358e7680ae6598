#include "ui/command/decisions_json.h"

#include <utility>
#include <vector>

#include "base/fields.h"
#include "spec/plan/adaptive_batch.h"

namespace tombolo::command {
namespace {

template <class Decision>
Value as_json(Value first, Value last, int64_t changed, std::span<const Decision> newest) {
  Value::Array changes;
  for (Decision each : newest) changes.push_back(write_fields(each));
  return Value::Table{{"first", std::move(first)},
                      {"last", std::move(last)},
                      {"changed", changed},
                      {"changes", std::move(changes)}};
}

}  // namespace

Value decisions_json(double first_density, int64_t changed,
                     std::span<const tune::DensityDecision> newest) {
  return as_json(first_density, newest.empty() ? first_density : newest.back().density, changed,
                 newest);
}

Value decisions_json(const plan::Plan& plan, int64_t changed,
                     std::span<const tune::BatchDecision> newest) {
  const auto list = [](const std::vector<int64_t>& of) {
    return Value(Value::Array(of.begin(), of.end()));
  };
  const std::vector<int64_t> first = plan::microbatches_of_all(plan);
  return as_json(list(first), list(newest.empty() ? first : newest.back().microbatches), changed,
                 newest);
}

}  // namespace tombolo::command
