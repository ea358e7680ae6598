// Published tables that we claim to reproduce: our figure next to theirs, the gap, and the band in
// which we say it lies.
//
// A table is a name ("rail-only/table-4": paper, then table), a source, and a function that
// computes its rows from the laws. The published figures are in reproduce.cc and
// reproduce_<paper>.cc, next to the code that reproduces them, with the reason for each band. A row
// outside its band fails the program, and the test. What a paper prints and we do not reproduce is
// a row too: it says why, and fails nothing.
//
// Bands are what each row claims. Hits and misses are counted by one rule, whatever is claimed: within
// 10 % of what is published, or of a bound no more than 10 % beyond it.
#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/result.h"

namespace tombolo::reproduce {

// `ours` of a figure that cannot be computed here; its row says why.
inline constexpr double kNotComputed = std::numeric_limits<double>::quiet_NaN();

enum class Outcome {
  kHit,              // within kHit of what is published, or of its bound
  kMiss,             // further off
  kNotReproducible,  // not computed: the paper says too little, or it was measured by training
  kNotPublished,     // compared with a figure that is not the paper's
};
constexpr auto enum_names(Outcome) {
  return std::to_array<EnumName<Outcome>>({{Outcome::kHit, "hit"},
                                           {Outcome::kMiss, "miss"},
                                           {Outcome::kNotReproducible, "not-reproducible"},
                                           {Outcome::kNotPublished, "not-published"}});
}
inline constexpr double kHit = 0.10;

struct Row {
  std::string name;  // within its table
  double ours = 0;
  double published = 0;
  std::string unit;
  double band = 0;                  // largest relative error that we claim
  std::string not_reproduced = {};  // why we claim nothing: a miss, shown with this reason
  bool at_most = false;             // the claim: no more than that above; below is no miss
  bool at_least = false;            // published as "more than": above is no miss
  // Whose figure `published` is, where the paper prints none: "counted by hand", a second program,
  // a sentence of the text.
  std::string second = {};

  double relative_error() const;
  bool computed() const { return !std::isnan(ours); }
  bool ok() const;  // within the band
  Outcome outcome() const;
  bool fails() const { return not_reproduced.empty() && !ok(); }
};

struct Table {
  std::string name;
  std::string source;
  std::string band;  // why it is as wide as it is
  std::vector<Row> rows;
};

// All of them, computed once, sorted by name. Takes seconds: searches for the splits of rail-only's
// figures 9 to 11 and for the schedules of CrossPipe's tables, and simulations.
const std::vector<Table>& published_tables();

// The tables called `name`, or all of the paper called so; "" for all. Unusable: no such table.
// Computes those of the paper alone, unless there is none.
Result<std::vector<Table>> reproduce(std::string_view name);

}  // namespace tombolo::reproduce
