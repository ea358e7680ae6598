#include "ui/report/heat_map.h"

#include "base/check.h"
#include "base/value.h"
#include "ui/report/page_parts.h"
#include "ui/report/template.h"

namespace tombolo::report {
namespace {

// `cells` is flat: from, to, layer, bytes.
Value map_data(const HeatMap& map, size_t layers) {
  CHECK(map.side >= 0 && map.side <= kHeatMapSideMax, "a heat map of {} cells", map.side);
  CHECK(map.per_cell >= 1 && map.side * map.per_cell >= map.count, "{} cells of {} for {}",
        map.side, map.per_cell, map.count);
  CHECK(map.layers.size() == layers, "{} matrices for {} layers", map.layers.size(), layers);
  const auto cells = static_cast<size_t>(map.side * map.side);
  for (const auto& layer : map.layers) CHECK(layer.size() == cells, "{} cells", layer.size());
  Value::Array out;
  for (size_t i = 0; i < cells; ++i) {
    for (size_t l = 0; l < layers; ++l) {
      const double bytes = map.layers[l][i];
      if (bytes <= 0) continue;
      out.push_back(static_cast<int64_t>(i) / map.side);
      out.push_back(static_cast<int64_t>(i) % map.side);
      out.push_back(static_cast<int64_t>(l));
      out.push_back(bytes);
    }
  }
  return Value::Table{{"title", map.title},       {"first", map.first}, {"count", map.count},
                      {"per_cell", map.per_cell}, {"side", map.side},   {"group", map.group},
                      {"cells", std::move(out)}};
}

Value page_data(const HeatMapPage& page) {
  Value::Array maps;
  for (const HeatMap& map : page.maps) maps.push_back(map_data(map, page.layers.size()));
  return Value::Table{{"title", page.title},
                      {"summary", page.summary},
                      {"thing", page.thing},
                      {"group", page.group},
                      {"cards", cards_data(page.cards)},
                      {"layers", layers_data(page.layers)},
                      {"maps", std::move(maps)},
                      {"tables", tables_data(page.tables)},
                      {"notes", texts(page.notes)},
                      {"command", page.command},
                      {"version", page.version}};
}

}  // namespace

std::string render_heat_maps(const HeatMapPage& page) {
  const std::string data = script_json(page_data(page));
  const std::string title = escape_html(page.title);
  return fill_template(asset("heat_map.html"), {{"title", title},
                                                {"style", asset("page.css")},
                                                {"words", asset("words.js")},
                                                {"parts", asset("parts.js")},
                                                {"view_hash", asset("view_hash.js")},
                                                {"heat_map", asset("heat_map.js")},
                                                {"data", data}});
}

}  // namespace tombolo::report
