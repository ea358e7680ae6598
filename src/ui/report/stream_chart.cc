#include "ui/report/stream_chart.h"

#include "base/check.h"
#include "base/value.h"
#include "ui/report/page_parts.h"
#include "ui/report/template.h"

namespace tombolo::report {
namespace {

Value stream_data(const StreamChartPage& page) {
  Value::Array blocks;
  for (const StreamBlock& b : page.blocks) {
    CHECK(b.row >= 0 && b.row < static_cast<int64_t>(page.rows.size()), "{} in row {} of {}",
          b.name, b.row, page.rows.size());
    CHECK(b.start >= 0 && b.start <= b.end && b.end <= page.end * (1 + 1e-9),
          "{} from {} to {} of {}", b.name, b.start, b.end, page.end);
    blocks.push_back(Value::Table{
        {"name", b.name}, {"row", b.row}, {"start", b.start}, {"end", b.end}, {"color", b.color}});
  }
  return Value::Table{{"title", page.title},
                      {"summary", page.summary},
                      {"cards", cards_data(page.cards)},
                      {"rows", texts(page.rows)},
                      {"blocks", std::move(blocks)},
                      {"end", page.end},
                      {"legend", layers_data(page.legend)},
                      {"tables", tables_data(page.tables)},
                      {"notes", texts(page.notes)},
                      {"command", page.command},
                      {"version", page.version}};
}

}  // namespace

std::string render_streams(const StreamChartPage& page) {
  const std::string data = script_json(stream_data(page));
  const std::string title = escape_html(page.title);
  return fill_template(asset("streams.html"), {{"title", title},
                                               {"style", asset("page.css")},
                                               {"words", asset("words.js")},
                                               {"parts", asset("parts.js")},
                                               {"streams", asset("streams.js")},
                                               {"data", data}});
}

}  // namespace tombolo::report
