#include "ui/report/planner_page.h"

#include <algorithm>

#include "base/check.h"
#include "base/value.h"
#include "ui/report/page_parts.h"
#include "ui/report/template.h"

namespace tombolo::report {
namespace {

const char* name_of(PlannerKind kind) {
  switch (kind) {
    case PlannerKind::kTime:
      return "time";
    case PlannerKind::kMoney:
      return "money";
    case PlannerKind::kBytes:
      return "bytes";
    case PlannerKind::kRate:
      return "rate";
    case PlannerKind::kCount:
      return "count";
  }
  return "";
}

Value map_data(const std::optional<PlannerMap>& map) {
  if (!map || map->places.empty()) return {};
  Value::Array places, links;
  for (const PlannerPlace& place : map->places) {
    places.push_back(Value::Table{
        {"name", place.name}, {"devices", place.devices}, {"holds", texts(place.holds)}});
  }
  for (const PlannerLink& link : map->links) {
    CHECK(link.from < places.size() && link.to < places.size(), "a link from {} to {} of {}",
          link.from, link.to, places.size());
    links.push_back(Value::Table{{"from", static_cast<int64_t>(link.from)},
                                 {"to", static_cast<int64_t>(link.to)},
                                 {"rate", link.rate},
                                 {"latency", link.latency}});
  }
  return Value::Table{
      {"places", std::move(places)}, {"links", std::move(links)}, {"note", map->note}};
}

Value axis_data(const PlannerAxis& axis) {
  return Value::Table{{"name", axis.name}, {"kind", name_of(axis.kind)}};
}

Value chart_data(const std::optional<PlannerChart>& chart) {
  if (!chart || chart->points.empty()) return {};
  Value::Array points;
  for (const PlannerPoint& point : chart->points) {
    points.push_back(Value::Table{{"row", point.row},
                                  {"name", point.name},
                                  {"x", point.x},
                                  {"y", point.y},
                                  {"front", point.on_front}});
  }
  return Value::Table{{"title", chart->title},
                      {"x", axis_data(chart->x)},
                      {"y", axis_data(chart->y)},
                      {"points", std::move(points)},
                      {"recommended", chart->recommended},
                      {"note", chart->note}};
}

Value bars_data(const PlannerBars& bars) {
  Value::Array rows;
  for (const PlannerBar& bar : bars.rows) {
    CHECK(bar.values.size() == bars.parts.size(), "{} of {} parts of {}", bar.values.size(),
          bars.parts.size(), bar.name);
    if (rows.size() == kPlannerBarsMax) break;
    Value::Array values;
    for (const double value : bar.values) values.push_back(value);
    rows.push_back(
        Value::Table{{"row", bar.row}, {"name", bar.name}, {"values", std::move(values)}});
  }
  return Value::Table{{"title", bars.title},
                      {"kind", name_of(bars.kind)},
                      {"parts", layers_data(bars.parts)},
                      {"rows", std::move(rows)},
                      {"note", bars.note}};
}

Value ranges_data(const PlannerRanges& ranges) {
  Value::Array parts;
  for (const PlannerRange& range : ranges.ranges) {
    parts.push_back(Value::Table{{"from", range.from}, {"row", range.row}, {"name", range.name}});
  }
  return Value::Table{{"title", ranges.title},
                      {"axis", ranges.axis},
                      {"here", ranges.here ? Value(*ranges.here) : Value()},
                      {"one", ranges.one ? Value(*ranges.one) : Value()},
                      {"one_kind", name_of(ranges.one_kind)},
                      {"ranges", std::move(parts)}};
}

Value page_data(const PlannerPage& page) {
  Value::Array bars, ranges;
  for (const PlannerBars& each : page.bars) {
    if (!each.rows.empty()) bars.push_back(bars_data(each));
  }
  for (const PlannerRanges& each : page.ranges) {
    if (!each.ranges.empty()) ranges.push_back(ranges_data(each));
  }
  return Value::Table{{"title", page.title},
                      {"summary", page.summary},
                      {"cards", cards_data(page.cards)},
                      {"map", map_data(page.map)},
                      {"chart", chart_data(page.chart)},
                      {"bars", std::move(bars)},
                      {"ranges", std::move(ranges)},
                      {"tables", tables_data(page.tables)},
                      {"notes", texts(page.notes)},
                      {"command", page.command},
                      {"version", page.version}};
}

}  // namespace

PlannerBars time_use_bars() {
  return {.title = "Where the time of an iteration goes",
          .parts = {{"computation", "--kind-F"},
                    {"exposed gradient exchange", "--kind-SEND_B"},
                    {"other exposed communication", "--kind-SEND_F"},
                    {"idle", "--kind-RECV"}},
          .rows = {},
          .note =
              "By the simulation, the mean over all ranks: exposed is what a rank waits for and "
              "nothing is computed behind."};
}

void mark_front(std::vector<PlannerPoint>& points) {
  for (PlannerPoint& point : points) {
    point.on_front = std::none_of(points.begin(), points.end(), [&](const PlannerPoint& other) {
      return other.x <= point.x && other.y <= point.y && (other.x < point.x || other.y < point.y);
    });
  }
}

std::string render_planner(const PlannerPage& page) {
  const std::string data = script_json(page_data(page));
  const std::string title = escape_html(page.title);
  return fill_template(asset("planner.html"), {{"title", title},
                                               {"style", asset("page.css")},
                                               {"d3", asset("d3.min.js")},
                                               {"words", asset("words.js")},
                                               {"parts", asset("parts.js")},
                                               {"view_hash", asset("view_hash.js")},
                                               {"cluster_map", asset("cluster_map.js")},
                                               {"planner_charts", asset("planner_charts.js")},
                                               {"planner", asset("planner.js")},
                                               {"data", data}});
}

}  // namespace tombolo::report
