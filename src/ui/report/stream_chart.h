// A page with one picture: what each stream of a device does when, as one self-contained HTML file
// in the looks of the report of Traces.
//
// It knows nothing of operators: rows, blocks, words and tables come from the caller. Equal input
// gives equal bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ui/report/heat_map.h"

namespace tombolo::report {

struct StreamBlock {
  std::string name;
  int64_t row = 0;
  double start = 0, end = 0;  // microseconds
  std::string color;          // a variable of page.css: "--kind-F"
};

struct StreamChartPage {
  std::string title;
  std::string summary;
  std::vector<HeatMapCard> cards;
  std::vector<std::string> rows;
  std::vector<StreamBlock> blocks;
  double end = 0;  // microseconds
  std::vector<HeatMapLayer> legend;
  std::vector<HeatMapTable> tables;
  std::vector<std::string> notes;
  std::string command;  // that makes the page again
  std::string version;
};

// CHECKs that every block lies in a row and within the time.
std::string render_streams(const StreamChartPage& page);

}  // namespace tombolo::report
