// A page of what-ifs: lines of one figure over one of the things that vary, a line per value of
// another, and the whole table, as one self-contained HTML file in the looks of the report.
//
// It knows nothing of jobs: axes, columns and words come from the caller. Rows are those of a grid,
// the product of all axes, the last one varying fastest. Axes that are neither along a chart nor
// among its lines are chosen from lists on the page. Equal input gives equal bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tombolo::report {

struct SweepChartAxis {
  std::string name;
  std::vector<std::string> texts;  // its values, as they were given
  // The same as numbers in `unit`, where all of them are; else empty, and the axis is a list.
  std::vector<double> numbers;
  std::string unit;
};

// A column of the table: numbers or texts, one for each configuration.
struct SweepChartColumn {
  std::string name;
  std::vector<std::optional<double>> numbers;  // empty: texts
  std::vector<std::string> texts;
};

struct SweepChartCard {
  std::string what, figure, detail;
};

struct SweepChartPage {
  std::string title;
  std::string summary;
  std::vector<SweepChartCard> cards;
  std::vector<SweepChartAxis> axes;  // in the order of the grid
  std::vector<SweepChartColumn> columns;
  struct Chart {
    std::string title;
    size_t column = 0;  // of numbers
  };
  std::vector<Chart> charts;
  size_t x = 0;              // axis along the charts
  std::optional<size_t> by;  // axis with a line per value
  std::vector<std::string> notes;
  std::string command;  // that makes the page again
  std::string version;
};

inline constexpr int64_t kSweepChartMax = 100'000;  // configurations: about 100 bytes each

// CHECKs that columns have a value for each configuration, and charts numbers.
std::string render_sweep(const SweepChartPage& page);

}  // namespace tombolo::report
