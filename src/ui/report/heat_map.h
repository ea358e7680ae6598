// A page with heat maps: who sends how much to whom, as one self-contained HTML file that looks
// like the report of Traces.
//
// It knows nothing of what the numbers mean: matrices of non-negative bytes, one per layer (a kind
// of traffic), words and tables come from the caller. Equal input gives equal bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace tombolo::report {

// Square cells of `per_cell` numbered things each, from `first` on; the last cell may have fewer.
struct HeatMap {
  std::string title;
  int64_t first = 0;
  int64_t count = 0;  // things in all
  int64_t per_cell = 1;
  int64_t side = 0;                         // cells
  int64_t group = 0;                        // things of a group, outlined on the diagonal; 0: none
  std::vector<std::vector<double>> layers;  // [layer][from * side + to]
};

struct HeatMapLayer {
  std::string name;
  std::string color;  // a variable of page.css: "--kind-F"
};

struct HeatMapTable {
  std::string title;
  std::vector<std::string> columns;
  int64_t figures = 0;  // this many columns after the first are right-aligned
  std::vector<std::vector<std::string>> rows;
  std::string remark;  // a sentence below
  bool given = false;  // the job says it: no figure is predicted
};

struct HeatMapCard {
  std::string what, figure, detail;
};

struct HeatMapPage {
  std::string title;
  std::string summary;
  std::string thing = "GPU";  // what rows and columns number
  std::string group = "domain";
  std::vector<HeatMapCard> cards;
  std::vector<HeatMapLayer> layers;
  std::vector<HeatMap> maps;
  std::vector<HeatMapTable> tables;
  std::vector<std::string> notes;
  std::string command;  // that makes the page again
  std::string version;
};

inline constexpr int64_t kHeatMapSideMax = 512;

// CHECKs that every map has a matrix for each layer. Cells without bytes take no room in the page:
// about 20 bytes for each that has some.
std::string render_heat_maps(const HeatMapPage& page);

}  // namespace tombolo::report
