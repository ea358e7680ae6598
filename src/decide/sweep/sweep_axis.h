// What varies in a sweep, and the grid that it spans.
//
//   training.micro_batch=1,2,4          numbers, as TOML reads them
//   parallelism.schedule=gpipe,1f1b     what is no TOML is a text
//   cluster.wan.*.one_way_latency=10 ms..40 ms/4     10, 20, 30 and 40 ms: four, evenly spaced
//   parallelism.pipeline=1..8           whole numbers
//   parallelism.layers_per_stage=[3,1],[2,2]     commas inside brackets and quotes divide nothing
//
// The grid is the product of all lists in the order given; the last one varies fastest, as the last
// digit of a number does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/value.h"

namespace tombolo::sweep {

struct SweepAxis {
  std::string path;
  std::vector<Value> values;

  bool operator==(const SweepAxis&) const = default;
};

inline constexpr int64_t kSweepMax = 1'000'000;  // configurations of a grid

// Unusable: no path, no value, a list that is not closed, more than kSweepMax values.
Result<SweepAxis> parse_sweep_axis(std::string_view text);

class SweepGrid {
 public:
  // Unusable: no axis, one path twice, more than kSweepMax configurations.
  static Result<SweepGrid> make(std::vector<SweepAxis> axes);

  const std::vector<SweepAxis>& axes() const { return axes_; }
  int64_t size() const { return size_; }
  const Value& value(int64_t configuration, size_t axis) const;

 private:
  std::vector<SweepAxis> axes_;
  std::vector<int64_t> strides_;  // configurations between two values of an axis
  int64_t size_ = 1;
};

// As a cell of a table: a text is itself, a number its shortest form, anything else JSON.
std::string sweep_text(const Value& value);

// A number with its unit, as charts need it: {10, "ms"} of "10 ms". Empty: neither a number nor
// that.
struct SweepNumber {
  double number = 0;
  std::string unit;  // "" for a plain number
};
std::optional<SweepNumber> sweep_number(const Value& value);

// Lines of a file mean nothing once its values were replaced.
void forget_lines(Value& value);

}  // namespace tombolo::sweep
