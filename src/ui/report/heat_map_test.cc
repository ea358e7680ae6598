#include "ui/report/heat_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "support/page_data.h"

namespace tombolo::report {
namespace {

using testing::HasSubstr;
using testing::Not;

// Three GPUs: 0 sends 5 bytes to 1 of one kind, 2 sends 7 to 0 of the other.
HeatMapPage three_gpus() {
  HeatMapPage page;
  page.title = "three";
  page.layers = {{"red", "--kind-F"}, {"blue", "--kind-B"}};
  page.maps = {{.title = "All 3 GPUs",
                .first = 0,
                .count = 3,
                .per_cell = 1,
                .side = 3,
                .group = 0,
                .layers = {{0, 5, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 7, 0, 0}}}};
  return page;
}

TEST(HeatMap, carries_the_cells_that_hold_something) {
  const Value data = data_of(render_heat_maps(three_gpus()));
  const Value& map = data.find("maps")->get<Value::Array>()->front();
  // From, to, layer, bytes.
  EXPECT_EQ(to_json(*map.find("cells"), -1), "[0,1,0,5.0,2,0,1,7.0]");
}

TEST(HeatMap, strangers_words_stay_words) {
  HeatMapPage page = three_gpus();
  page.title = "<b>{{data}}</script>";
  page.notes = {"</script><script>alert(1)</script>"};
  const std::string html = render_heat_maps(page);
  EXPECT_THAT(html, Not(HasSubstr("<b>{{data}}")));
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(html, HasSubstr("&lt;b&gt;{{data}}"));
  EXPECT_EQ(*data_of(html).find("title")->get<std::string>(), page.title);
}

TEST(HeatMap, fetches_nothing_and_is_the_same_each_time) {
  const std::string html = render_heat_maps(three_gpus());
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, Not(HasSubstr("http://")));
  EXPECT_THAT(html, Not(HasSubstr("https://")));
  EXPECT_EQ(html, render_heat_maps(three_gpus()));
}

TEST(HeatMapDeathTest, MapsAndTablesAreWhole) {
  HeatMapPage page = three_gpus();
  page.maps[0].count = 4;
  EXPECT_DEATH(render_heat_maps(page), "3 cells of 1 for 4");
  page = three_gpus();
  page.maps[0].layers.pop_back();
  EXPECT_DEATH(render_heat_maps(page), "1 matrices for 2 layers");
  page = three_gpus();
  page.tables = {{.title = "by kind", .columns = {"", "bytes"}, .rows = {{"red"}}, .remark = ""}};
  EXPECT_DEATH(render_heat_maps(page), "a row of 1 cells under 2 columns");
}

}  // namespace
}  // namespace tombolo::report
