#include "sample_heat_map.h"

namespace tombolo::report {
namespace {

// Rings of 8 KB in each domain, and 100 bytes from each GPU to the same place in the next domain.
HeatMap map_of(int64_t gpus, int64_t per_cell, const char* title) {
  HeatMap map{.title = title,
              .first = 0,
              .count = gpus,
              .per_cell = per_cell,
              .side = gpus / per_cell,
              .group = 4,
              .layers = {}};
  map.layers.assign(2, std::vector<double>(static_cast<size_t>(map.side * map.side)));
  const auto add = [&](size_t layer, int64_t from, int64_t to, double bytes) {
    if (to >= gpus) return;
    map.layers[layer][static_cast<size_t>(from / per_cell * map.side + to / per_cell)] += bytes;
  };
  for (int64_t i = 0; i < gpus; ++i) {
    add(0, i, i / 4 * 4 + (i + 1) % 4, 8000);
    add(1, i, i + 4, 100);
  }
  return map;
}

}  // namespace

HeatMapPage sample_heat_map() {
  HeatMapPage page;
  page.title = "Traffic of a sample";
  page.summary = "16 GPUs in domains of 4";
  page.cards = {{"Bytes", "129 KB", "all GPUs, one iteration"}};
  page.layers = {{"tensor", "--kind-F"}, {"data", "--kind-U"}};
  page.maps = {map_of(16, 2, "All 16 GPUs, by 2"), map_of(8, 1, "The first 8 GPUs")};
  page.tables = {
      {.title = "By kind",
       .columns = {"", "bytes", "where"},
       .figures = 1,
       .rows = {{"tensor", "128 KB", "in the domain"}, {"data", "1.2 KB", "on the rail"}},
       .remark = "Nothing crosses rails."}};
  page.notes = {"a sample"};
  page.command = "tombolo traffic sample.toml";
  page.version = "sample";
  return page;
}

}  // namespace tombolo::report
