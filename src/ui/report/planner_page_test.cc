#include "ui/report/planner_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "spec/cluster/cluster.h"
#include "support/page_data.h"
#include "ui/report/answer_values.h"
#include "ui/report/cluster_map.h"

namespace tombolo::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Two datacenters, of which one is idle, and three answers.
PlannerPage two_places() {
  PlannerPage page;
  page.title = "two";
  page.map = PlannerMap{.places = {{"oregon", "8 x a100-80g", {"1 pipeline of 2 stages"}},
                                   {"paris", "4 x h100-80g", {}}},
                        .links = {{0, 1, "5 Gbps", "30 ms"}},
                        .note = {}};
  page.chart = PlannerChart{.title = "Time against cost",
                            .x = {"Time", PlannerKind::kTime},
                            .y = {"Cost", PlannerKind::kMoney},
                            .points = {{1, "fast", 1, 5}, {2, "cheap", 3, 2}, {3, "worse", 3, 5}},
                            .note = {}};
  page.bars = {{.title = "Time",
                .parts = {{"compute", "--kind-F"}, {"idle", "--idle"}},
                .rows = {{1, "fast", {0.75, 0.25}}},
                .note = {}}};
  page.ranges = {{.title = "WAN rate",
                  .axis = "times that of the job",
                  .here = 1.0,
                  .ranges = {{0, 2, "cheap"}, {0.5, 1, "fast"}}}};
  page.tables = {
      {.title = "All", .columns = {"way", "time"}, .figures = 1, .rows = {{"1", "1 s"}}}};
  return page;
}

// A table of the page's data, by the keys on the way to it.
std::string json_of(const Value& data, std::initializer_list<const char*> path) {
  const Value* at = &data;
  for (const char* key : path) at = &value_at(*at, key);
  return to_json(*at, -1);
}

TEST(PlannerPage, CarriesPlacesPointsBarsAndRanges) {
  PlannerPage page = two_places();
  mark_front(page.chart->points);
  const Value data = data_of(render_planner(page));
  EXPECT_EQ(json_of(data, {"map", "links"}),
            R"([{"from":0,"to":1,"rate":"5 Gbps","latency":"30 ms"}])");
  const Value::Array& points = list_at(value_at(data, "chart"), "points");
  EXPECT_EQ(to_json(points[1], -1), R"({"row":2,"name":"cheap","x":3.0,"y":2.0,"front":true})");
  EXPECT_EQ(json_of(points[2], {"front"}), "false");  // as dear as the fast, as slow as the cheap
  EXPECT_EQ(json_of(list_at(data, "bars")[0], {"rows"}),
            R"([{"row":1,"name":"fast","values":[0.75,0.25]}])");
  EXPECT_EQ(json_of(list_at(data, "ranges")[0], {"here"}), "1.0");
}

TEST(PlannerPage, LeavesOutWhatIsEmpty) {
  PlannerPage page = two_places();
  page.map.reset();
  page.chart->points.clear();
  page.bars[0].rows.clear();
  page.ranges[0].ranges.clear();
  const Value data = data_of(render_planner(page));
  EXPECT_TRUE(value_at(data, "map").is_null());
  EXPECT_TRUE(value_at(data, "chart").is_null());
  EXPECT_TRUE(list_at(data, "bars").empty());
  EXPECT_TRUE(list_at(data, "ranges").empty());
}

TEST(PlannerPage, EqualPointsAreBothOnTheFront) {
  std::vector<PlannerPoint> points{{1, "a", 1, 1}, {2, "b", 1, 1}, {3, "c", 1, 2}};
  mark_front(points);
  EXPECT_TRUE(points[0].on_front && points[1].on_front);
  EXPECT_FALSE(points[2].on_front);
}

TEST(PlannerPage, WordsOfAFileStayWords) {
  PlannerPage page = two_places();
  page.title = "<b>{{data}}</script>";
  page.map->places[0].name = "</script><script>alert(1)</script>";
  const std::string html = render_planner(page);
  EXPECT_THAT(html, Not(HasSubstr("<b>{{data}}")));
  EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
  EXPECT_EQ(text_at(data_of(html), "title"), page.title);
}

TEST(PlannerPage, FetchesNothingAndIsTheSameEachTime) {
  const std::string html = render_planner(two_places());
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_EQ(html, render_planner(two_places()));
}

TEST(PlannerPageDeathTest, LinksJoinPlacesAndBarsHaveAllParts) {
  PlannerPage page = two_places();
  page.map->links[0].to = 2;
  EXPECT_DEATH(render_planner(page), "a link from 0 to 2 of 2");
  page = two_places();
  page.bars[0].rows[0].values.pop_back();
  EXPECT_DEATH(render_planner(page), "1 of 2 parts of fast");
}

// Stage 0 of both pipelines in oregon, stages 1 and 2 in paris, one more pipeline with all of them in iowa.
TEST(ClusterMap, SaysWhichStagesEachDatacenterHolds) {
  plan::Plan plan;
  plan.parallelism.pipeline = 3;
  const auto add = [&](int32_t stage, int32_t replica, const char* where) {
    plan.ranks.push_back(
        {.rank = 0, .stage = stage, .datacenter = where, .node = 0, .replica = replica});
  };
  for (const int32_t replica : {0, 1}) {
    add(0, replica, "oregon");
    add(1, replica, "paris");
    add(2, replica, "paris");
  }
  for (const int32_t stage : {0, 1, 2}) add(stage, 2, "iowa");
  const Holdings holds = holdings_of(plan);
  EXPECT_THAT(holds("oregon"), ElementsAre("stage 0 of 2 pipelines"));
  EXPECT_THAT(holds("paris"), ElementsAre("stages 1-2 of 2 pipelines"));
  EXPECT_THAT(holds("iowa"), ElementsAre("1 pipeline of 3 stages"));
  EXPECT_THAT(holds("texas"), ElementsAre());
}

// What all pairs share binds where it is less than what one pair may have.
TEST(ClusterMap, LabelsTheLimitThatBinds) {
  cluster::Cluster cluster;
  cluster.datacenters.resize(2);
  cluster.datacenters[0].name = "oregon";
  cluster.datacenters[1].name = "paris";
  cluster.wan = {{.between = {"oregon", "paris"},
                  .one_way_latency = 30_ms,
                  .node_pair_limit = 10_Gbps,
                  .path_limit = 5_Gbps}};
  const Holdings none = [](const std::string&) { return std::vector<std::string>{}; };
  EXPECT_EQ(map_of(cluster, none).links[0].rate, "5 Gbps");
  cluster.wan[0].path_limit.reset();
  EXPECT_EQ(map_of(cluster, none).links[0].rate, "10 Gbps a node pair");
  EXPECT_EQ(map_of(cluster, none).links[0].latency, "30 ms");
}

TEST(AnswerValues, WriteFiguresWithUnits) {
  EXPECT_EQ(time_of(8.373), "8.37 s");
  EXPECT_EQ(time_of(3 * 3600), "3 h");
  EXPECT_EQ(time_of(3 * 86'400), "3 days");
  EXPECT_EQ(money_of(2005.8), "2,006 USD");
  EXPECT_EQ(money_of({}), "-");
  EXPECT_EQ(percent_of(0.4583), "45.8 %");
  EXPECT_EQ(figure_of(250'448.9), "250,449");
}

}  // namespace
}  // namespace tombolo::report
