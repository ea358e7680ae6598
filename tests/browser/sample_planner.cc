#include "sample_planner.h"

#include <fmt/format.h>

namespace tombolo::report {
namespace {

PlannerMap ten_places() {
  PlannerMap map;
  const char* const names[] = {
      "oregon", "iowa",      "virginia", "texas",  "montreal",
      "paris",  "frankfurt", "tokyo",    "mumbai", "</script><b>hostile</b>"};
  for (const char* name : names) {
    const auto number = static_cast<int64_t>(map.places.size());
    map.places.push_back(
        {.name = name,
         .devices = fmt::format("{} x h100-80g", 16 << (number % 5)),
         .holds = {fmt::format("stages {}-{} of 16 pipelines", 2 * number, 2 * number + 1)}});
  }
  map.places.back().holds.clear();  // idle
  for (size_t from = 0; from < map.places.size(); ++from) {
    for (size_t to = from + 1; to < map.places.size(); ++to) {
      map.links.push_back({.from = from,
                           .to = to,
                           .rate = fmt::format("{} Gbps a node pair", 5 + from),
                           .latency = fmt::format("{} ms", 10 * (to - from))});
    }
  }
  map.note = "Links: rate and one-way latency, as the job says.";
  return map;
}

}  // namespace

// Answer n takes n hours and costs 1200 / n USD, so all are on the front but the last, which takes and costs as much as the one
// before and an hour more, and the eleventh, which is the tenth again.
PlannerPage sample_planner() {
  PlannerPage page;
  page.title = "Which way: sample </script><b>hostile</b>";
  page.summary = "A model over ten datacenters. Recommended: way 2.";
  page.cards = {{"Iteration", "8.37 s", "way 2"}, {"Cost", "0.24 USD", "of an iteration"}};
  page.map = ten_places();
  page.chart = PlannerChart{.title = "Time against cost",
                            .x = {"Time to the target", PlannerKind::kTime},
                            .y = {"Cost to the target", PlannerKind::kMoney},
                            .points = {},
                            .recommended = 2,
                            .note = "Numbers are rows of the table."};
  PlannerBars bars{.title = "Where the time of an iteration goes",
                   .parts = {{"computation", "--kind-F"},
                             {"exposed communication", "--kind-SEND_F"},
                             {"idle", "--kind-RECV"}},
                   .rows = {},
                   .note = "By the simulation."};
  HeatMapTable table{.title = "All ways",
                     .columns = {"way", "time", "cost", "why not"},
                     .figures = 2,
                     .rows = {},
                     .remark = "A sample."};
  for (int64_t row = 1; row <= 12; ++row) {
    const double hours = row == 11 ? 10 : static_cast<double>(row);
    const double cost = row == 12 ? 200 : 1200 / hours;
    const std::string name = fmt::format("way {}", row);
    page.chart->points.push_back({.row = row, .name = name, .x = 3600 * hours, .y = cost});
    bars.rows.push_back(
        {.row = row, .name = name, .values = {hours, row == 1 ? 0 : 0.5 * hours, 0.25}});
    table.rows.push_back(
        {fmt::format("{}. {}", row, name), fmt::format("{} h", hours),
         fmt::format("{:.0f} USD", cost),
         row == 2 ? "recommended" : "a sentence that says at length what is wrong with it"});
  }
  mark_front(page.chart->points);
  page.bars = {bars};
  page.ranges = {
      {.title = "WAN rate",
       .axis = "WAN rate, times that of the job",
       .here = 1.0,
       .one = 1.25e9,
       .ranges = {{0, 3, "way 3"}, {0.03, 1, "way 1"}, {0.032, 2, "way 2"}, {18, 0, ""}}},
      {.title = "Price of egress",
       .axis = "USD/GB",
       .here = {},
       .ranges = {{0, 2, "way 2"}, {0.4, 12, "way 12"}}}};
  page.tables = {table};
  page.notes = {"a sample"};
  page.command = "tombolo plan sample.toml --across";
  page.version = "sample";
  return page;
}

}  // namespace tombolo::report
