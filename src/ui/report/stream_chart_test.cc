#include "ui/report/stream_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "support/page_data.h"

namespace tombolo::report {
namespace {

StreamChartPage two_blocks() {
  StreamChartPage page;
  page.title = "<b>two</b>";
  page.rows = {"computation", "local link"};
  page.end = 10;
  page.blocks = {{"FC1", 0, 0, 6, "--kind-F"}, {"AG1", 1, 2.5, 10, "--kind-SEND_F"}};
  return page;
}

TEST(StreamChart, CarriesItsBlocks) {
  const std::string html = render_streams(two_blocks());
  const Value data = data_of(html);
  EXPECT_EQ(to_json(data.find("blocks")->get<Value::Array>()->back(), -1),
            "{\"name\":\"AG1\",\"row\":1,\"start\":2.5,\"end\":10.0,\"color\":\"--kind-SEND_F\"}");
  EXPECT_THAT(html, testing::Not(testing::HasSubstr("<b>two")));
  EXPECT_THAT(html, testing::HasSubstr("default-src 'none'"));
  EXPECT_EQ(html, render_streams(two_blocks()));
}

TEST(StreamChartDeathTest, BlocksLieInTheirRowsAndInTime) {
  StreamChartPage page = two_blocks();
  page.blocks[0].row = 2;
  EXPECT_DEATH(render_streams(page), "FC1 in row 2 of 2");
  page = two_blocks();
  page.blocks[1].end = 11;
  EXPECT_DEATH(render_streams(page), "AG1 from 2.5 to 11 of 10");
}

}  // namespace
}  // namespace tombolo::report
