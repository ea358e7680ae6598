#include "ui/report/sweep_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "support/page_data.h"

namespace tombolo::report {
namespace {

using testing::HasSubstr;
using testing::Not;

// Two latencies by two schedules; the last configuration has no throughput.
SweepChartPage four_configurations() {
  SweepChartPage page;
  page.title = "four";
  page.axes = {{.name = "latency", .texts = {"1 ms", "2 ms"}, .numbers = {1, 2}, .unit = "ms"},
               {.name = "schedule", .texts = {"gpipe", "1f1b"}, .numbers = {}, .unit = {}}};
  page.columns = {{.name = "status", .numbers = {}, .texts = {"ok", "ok", "ok", "infeasible"}},
                  {.name = "rate", .numbers = {1.5, 2, 3, std::nullopt}, .texts = {}}};
  page.charts = {{"Rate", 1}};
  page.by = 1;
  return page;
}

TEST(SweepChart, CarriesAxesAndColumns) {
  const Value data = data_of(render_sweep(four_configurations()));
  const auto& axes = *data.find("axes")->get<Value::Array>();
  EXPECT_EQ(to_json(*axes[0].find("numbers"), -1), "[1.0,2.0]");
  EXPECT_TRUE(axes[1].find("numbers")->is_null());
  const auto& columns = *data.find("columns")->get<Value::Array>();
  EXPECT_EQ(to_json(*columns[1].find("cells"), -1), "[1.5,2.0,3.0,null]");
  EXPECT_EQ(*data.find("by")->get<int64_t>(), 1);
}

TEST(SweepChart, StrangersWordsStayWords) {
  SweepChartPage page = four_configurations();
  page.title = "<b>{{data}}</script>";
  page.axes[1].texts[0] = "</script><script>alert(1)</script>";
  const std::string html = render_sweep(page);
  EXPECT_THAT(html, Not(HasSubstr("<b>{{data}}")));
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_EQ(*data_of(html).find("title")->get<std::string>(), page.title);
}

TEST(SweepChart, FetchesNothingAndIsTheSameEachTime) {
  const std::string html = render_sweep(four_configurations());
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_EQ(html, render_sweep(four_configurations()));
}

TEST(SweepChartDeathTest, ChartsRunAlongAxesThatAreThere) {
  SweepChartPage page = four_configurations();
  page.axes[0].numbers.pop_back();
  EXPECT_DEATH(render_sweep(page), "axis latency has 1 numbers for 2 values");
  page = four_configurations();
  page.by = 2;
  EXPECT_DEATH(render_sweep(page), "charts along axis 0 with lines by axis 2 of 2");
  page.x = 3;
  EXPECT_DEATH(render_sweep(page), "charts along axis 3");
}

}  // namespace
}  // namespace tombolo::report
