#include "ui/report/sweep_chart.h"

#include "base/check.h"
#include "base/value.h"
#include "ui/report/template.h"

namespace tombolo::report {
namespace {

Value axis_data(const SweepChartAxis& axis) {
  CHECK(axis.numbers.empty() || axis.numbers.size() == axis.texts.size(),
        "axis {} has {} numbers for {} values", axis.name, axis.numbers.size(), axis.texts.size());
  Value::Array numbers;
  for (const double number : axis.numbers) numbers.push_back(number);
  return Value::Table{{"name", axis.name},
                      {"texts", texts(axis.texts)},
                      {"numbers", numbers.empty() ? Value() : Value(std::move(numbers))},
                      {"unit", axis.unit}};
}

Value column_data(const SweepChartColumn& column, size_t configurations) {
  if (column.numbers.empty()) {
    CHECK(column.texts.size() == configurations, "column {} has {} of {} cells", column.name,
          column.texts.size(), configurations);
    return Value::Table{{"name", column.name}, {"numeric", false}, {"cells", texts(column.texts)}};
  }
  CHECK(column.numbers.size() == configurations, "column {} has {} of {} cells", column.name,
        column.numbers.size(), configurations);
  Value::Array cells;
  for (const std::optional<double>& number : column.numbers) {
    cells.push_back(number ? Value(*number) : Value());
  }
  return Value::Table{{"name", column.name}, {"numeric", true}, {"cells", std::move(cells)}};
}

Value page_data(const SweepChartPage& page) {
  CHECK(page.x < page.axes.size() && page.by.value_or(0) < page.axes.size(),
        "charts along axis {} with lines by axis {} of {}", page.x, page.by.value_or(0),
        page.axes.size());
  Value::Array axes, columns, charts, cards;
  size_t configurations = 1;
  for (const SweepChartAxis& axis : page.axes) {
    axes.push_back(axis_data(axis));
    configurations *= axis.texts.size();
  }
  for (const SweepChartColumn& column : page.columns) {
    columns.push_back(column_data(column, configurations));
  }
  for (const SweepChartPage::Chart& chart : page.charts) {
    CHECK(!page.columns.at(chart.column).numbers.empty(), "chart {} has no numbers", chart.title);
    charts.push_back(
        Value::Table{{"title", chart.title}, {"column", static_cast<int64_t>(chart.column)}});
  }
  for (const SweepChartCard& card : page.cards) {
    cards.push_back(
        Value::Table{{"what", card.what}, {"figure", card.figure}, {"detail", card.detail}});
  }
  return Value::Table{{"title", page.title},
                      {"summary", page.summary},
                      {"cards", std::move(cards)},
                      {"axes", std::move(axes)},
                      {"columns", std::move(columns)},
                      {"charts", std::move(charts)},
                      {"x", static_cast<int64_t>(page.x)},
                      {"by", page.by ? Value(static_cast<int64_t>(*page.by)) : Value()},
                      {"notes", texts(page.notes)},
                      {"command", page.command},
                      {"version", page.version}};
}

}  // namespace

std::string render_sweep(const SweepChartPage& page) {
  const std::string data = script_json(page_data(page));
  const std::string title = escape_html(page.title);
  return fill_template(asset("sweep.html"), {{"title", title},
                                             {"style", asset("page.css")},
                                             {"d3", asset("d3.min.js")},
                                             {"words", asset("words.js")},
                                             {"view_hash", asset("view_hash.js")},
                                             {"sweep", asset("sweep.js")},
                                             {"data", data}});
}

}  // namespace tombolo::report
