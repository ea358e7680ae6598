// The page of a decision: where it runs, what each answer takes and costs, where its time goes, and from which link on another
// answer wins. One self-contained HTML file in the looks of the report of Traces.
//
// It knows nothing of Plans: places, points, bars and ranges come from the caller, in seconds, USD, bytes and bytes per second; the page's scripts
// choose units. A section without content is left out. Equal input gives equal bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ui/report/heat_map.h"

namespace tombolo::report {

enum class PlannerKind { kTime, kMoney, kBytes, kRate, kCount };

struct PlannerPlace {
  std::string name;
  std::string devices;             // "16 x h100-80g"
  std::vector<std::string> holds;  // "8 pipelines of 2 stages"; empty: idle
};
struct PlannerLink {
  size_t from = 0, to = 0;  // of places
  std::string rate, latency;
};
struct PlannerMap {
  std::vector<PlannerPlace> places;
  std::vector<PlannerLink> links;
  std::string note;
};

struct PlannerAxis {
  std::string name;
  PlannerKind kind = PlannerKind::kTime;
};
// `row` is that of the first table, from 1 on.
struct PlannerPoint {
  int64_t row = 0;
  std::string name;
  double x = 0, y = 0;
  bool on_front = false;  // no other is better in both
};
struct PlannerChart {
  std::string title;
  PlannerAxis x, y;
  std::vector<PlannerPoint> points;
  int64_t recommended = 1;  // its row
  std::string note;
};

struct PlannerBar {
  int64_t row = 0;  // 0: none of the first table
  std::string name;
  std::vector<double> values;  // one for each part
};
struct PlannerBars {
  std::string title;
  PlannerKind kind = PlannerKind::kTime;
  std::vector<HeatMapLayer> parts;
  std::vector<PlannerBar> rows;
  std::string note;
};

// Which answer wins along a logarithmic axis: from `from` up to the `from` of the next range.
struct PlannerRange {
  double from = 0;  // of the first one 0
  int64_t row = 0;  // 0: no answer
  std::string name;
};
struct PlannerRanges {
  std::string title;           // "WAN rate"
  std::string axis;            // with its unit
  std::optional<double> here;  // what the job says
  std::optional<double> one;   // of a factor, what 1 stands for: all links have it
  PlannerKind one_kind = PlannerKind::kRate;
  std::vector<PlannerRange> ranges;
};

struct PlannerPage {
  std::string title;
  std::string summary;
  std::vector<HeatMapCard> cards;
  std::optional<PlannerMap> map;
  std::optional<PlannerChart> chart;
  std::vector<PlannerBars> bars;
  std::vector<PlannerRanges> ranges;
  std::vector<HeatMapTable> tables;
  std::vector<std::string> notes;
  std::string command;  // that makes the page again
  std::string version;
};

inline constexpr size_t kPlannerBarsMax = 40;  // rows of bars that are drawn; the table has all

// Of the mean rank: computation, exposed gradient exchange, other exposed communication, idle. No rows.
PlannerBars time_use_bars();

// Marks the points that no other one is better than, or as good in one and better in the other.
void mark_front(std::vector<PlannerPoint>& points);

// CHECKs that links join places, and that bars have a value for each part.
std::string render_planner(const PlannerPage& page);

}  // namespace tombolo::report
