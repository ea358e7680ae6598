#include "ui/report/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/json.h"
#include "ui/report/figures.h"
#include "ui/report/template.h"

namespace tombolo::report {
namespace {

using action::ActionKind;
using ::testing::HasSubstr;
using ::testing::Not;
using trace::Lane;
using trace::Trace;

// Iterations of 10 ns every 100 ns on one rank.
Trace steady(int64_t iterations) {
  Trace trace;
  for (int64_t i = 1; i <= iterations; ++i) {
    trace.intervals.push_back(
        {Lane::kCompute, 0, -1, {ActionKind::kForward, 0, 0}, i, {100 * i}, {100 * i + 10}, 0});
  }
  return trace;
}

TEST(Spread, KeepsBothEndsAndSpacesTheMiddle) {
  EXPECT_EQ(spread(3, 6), (std::vector<size_t>{0, 1, 2}));
  // 6 of 100: two from each end, two in the middles of the halves of the 96 between them:
  // 2 + 96 / 4 = 26 and 2 + 3 * 96 / 4 = 74.
  EXPECT_EQ(spread(100, 6), (std::vector<size_t>{0, 1, 26, 74, 98, 99}));
}

TEST(Timeline, EmbedsAtMostSixtyIterations) {
  EXPECT_EQ(chosen_iterations(steady(60)).size(), 60u);
  const std::vector<int64_t> chosen = chosen_iterations(steady(1000));
  ASSERT_EQ(chosen.size(), 60u);
  EXPECT_EQ(chosen[19], 20);   // the first twenty
  EXPECT_EQ(chosen[40], 981);  // the last twenty
  EXPECT_EQ(chosen[59], 1000);
}

TEST(Timeline, ThePredictionFollowsWhatWasPerformed) {
  // It has 1 to 3: its last iteration stands for 50 and 51.
  EXPECT_EQ(matching_iterations(steady(3), {1, 2, 50, 51}), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(matching_iterations(steady(100), {1, 2, 50}), (std::vector<int64_t>{1, 2, 50}));
  EXPECT_EQ(matching_iterations(steady(3), {11, 12}), (std::vector<int64_t>{3}));
}

TEST(Timeline, EmbedsFewerIterationsWhereTheyAreLarge) {
  // Three iterations of 50,000 intervals: two of them make 100,000.
  Trace trace;
  for (int64_t i = 1; i <= 3; ++i) {
    for (int64_t k = 0; k < 50'000; ++k) {
      trace.intervals.push_back({Lane::kCompute,
                                 0,
                                 -1,
                                 {ActionKind::kForward, 0, 0},
                                 i,
                                 {i * 1'000'000 + k},
                                 {i * 1'000'000 + k + 1},
                                 0});
    }
  }
  EXPECT_EQ(chosen_iterations(trace).size(), 2u);
}

// Rows, by timeline.h and kDigits: of rank 0 action 0, start 0, duration 10 = "K", no bytes: "AAKA". Evaluation
// is action 2, written as 4 = "E", from 30, written as 60 = 28 + 32: "8" with the sixth bit, "B"; 20 is "U". Of
// the link action 1 is "C", 10 is "U", 15 is "P", and 64 bytes are written as 65 = 1 + 2 * 32: "hC".
TEST(Timeline, LabelsLanesAndCountsFromTheStartOfTheIteration) {
  Trace trace;
  trace.header.ranks = {{0, 0, "oregon", "cpu"}, {1, 1, "paris", "cpu"}};
  trace.intervals = {
      {Lane::kCompute, 0, -1, {ActionKind::kForward, 0, 0}, 1, {100}, {110}, 0},
      {Lane::kLink, 0, 1, {ActionKind::kSendActivation, 0, 0}, 1, {110}, {125}, 64},
      {Lane::kCompute, 1, -1, {ActionKind::kEvaluate, 1, -1}, 0, {130}, {150}, 0},
  };
  // Lanes: rank 0, rank 1, oregon -> paris. Evaluation comes after iteration 1, so it is there.
  EXPECT_EQ(
      to_json(timeline(trace, {1}), -1),
      R"({"lanes":[)"
      R"({"kind":"compute","rank":0,"label":"rank 0","detail":"stage 0 · oregon","device":"cpu","datacenter":"oregon"},)"
      R"({"kind":"compute","rank":1,"label":"rank 1","detail":"stage 1 · paris","device":"cpu","datacenter":"paris"},)"
      R"({"kind":"link","rank":0,"peer":1,"label":"oregon → paris","detail":"rank 0 → 1"}],)"
      R"("actions":["0F0","0SEND_F0","1E"],)"
      R"("iterations":[{"iteration":1,"start_ns":100,"duration_ns":25,)"
      R"("rows":["AAKA","E8BUA","CUPhC"]}],"intervals":3,"intervals_left_out":0})");
}

// Two messages on a link: the second one leaves 20 ns before the first is there, written as 39 = 7 + 32: "nB".
// It has the action and the bytes of the first one: "A" each.
TEST(Timeline, IntervalsOfALaneMayOverlap) {
  Trace trace;
  trace.intervals = {
      {Lane::kLink, 0, 1, {ActionKind::kSendActivation, 0, 0}, 1, {0}, {30}, 64},
      {Lane::kLink, 0, 1, {ActionKind::kSendActivation, 0, 0}, 1, {10}, {30}, 64},
  };
  EXPECT_THAT(to_json(timeline(trace, {1}), -1), HasSubstr(R"("rows":["AAehCAnBUA"])"));
}

// Four forwards of 10 ns, one after the other. An action's name counts 10 bytes, an interval 4 here: the page
// is full after the second interval, and the third one begins 20 ns after the start.
TEST(Timeline, IsCutWhereThePageIsFull) {
  Trace trace;
  for (int64_t k = 0; k < 4; ++k) {
    trace.intervals.push_back(
        {Lane::kCompute, 0, -1, {ActionKind::kForward, 0, 0}, 1, {10 * k}, {10 * k + 10}, 0});
  }
  const std::string json = to_json(timeline(trace, {1}, 18), -1);
  EXPECT_THAT(json, HasSubstr(R"("duration_ns":40,"rows":["AAKAAAKA"],"cut_ns":20}])"));
  EXPECT_THAT(json, HasSubstr(R"("intervals":2,"intervals_left_out":2})"));
  EXPECT_THAT(to_json(timeline(trace, {1}), -1), Not(HasSubstr("cut_ns")));
}

// Two stages, two pipelines: lanes say which; the gradient all-reduce is in its rank's lane.
TEST(Timeline, TellsPipelinesApart) {
  Trace trace;
  trace.header.ranks = {{0, 0, "oregon", "cpu", 0},
                        {1, 0, "oregon", "cpu", 1},
                        {2, 1, "paris", "cpu", 0},
                        {3, 1, "paris", "cpu", 1}};
  trace.intervals = {
      {Lane::kCompute, 1, -1, {ActionKind::kForward, 0, 0}, 1, {0}, {10}, 0},
      {Lane::kLink, 1, 3, {ActionKind::kSendActivation, 0, 0}, 1, {10}, {15}, 64},
      {Lane::kCollective, 1, -1, {ActionKind::kReduceGradients, 0, -1}, 1, {10}, {30}, 512},
  };
  const std::string json = to_json(timeline(trace, {1}), -1);
  EXPECT_THAT(json, HasSubstr(R"({"kind":"compute","rank":1,"stage":0,"replica":1,)"
                              R"("label":"rank 1","detail":"stage 0 · pipeline 1 · oregon",)"));
  EXPECT_THAT(json, HasSubstr(R"({"kind":"link","rank":1,"stage":0,"replica":1,"peer":3,)"
                              R"("label":"oregon → paris","detail":"pipeline 1 · rank 1 → 3"}])"));
  // Lanes: ranks 0 to 3, and the link. The sum is in lane 1.
  EXPECT_THAT(json, HasSubstr(R"("actions":["0F0","0SEND_F0","0REDUCE_GRAD"])"));
  // A sum of 512 bytes, written as 513 = 1 + 16 * 32: "hQ".
  EXPECT_THAT(json, HasSubstr(R"("rows":["","AAKAEAUhQ","","","CUFhC"])"));
}

// One share of the loss per pipeline, and how busy the machine was, are no curves.
TEST(Timeline, DrawsTheLossOfAllReplicasOnly) {
  Trace trace;
  trace.records = {{"loss", 1, 2, {}, 5.5},
                   {"replica_loss", 1, 2, {}, 5.25},
                   {"replica_loss", 1, 3, {}, 5.75},
                   {"machine_busy_share", 1, 0, {}, 0.5}};
  EXPECT_EQ(to_json(record_curves(trace), -1), R"({"loss":{"iteration":[1],"value":[5.5]}})");
}

// Shares of 0.5, 0.25 and 0.75 make 0.5; what is no number does not count.
TEST(Figures, SumUpHowBusyTheMachineWas) {
  Trace trace;
  trace.records = {{"machine_busy_share", 1, 0, {}, 0.5},
                   {"machine_busy_share", 1, 1, {}, 0.25},
                   {"machine_busy_share", 2, 0, {}, 0.75},
                   {"machine_lateness_share", 1, 0, {}, -1},
                   {"machine_lateness_share", 2, 0, {}, std::numeric_limits<double>::infinity()},
                   {"loss", 1, 0, {}, 3}};
  EXPECT_EQ(to_json(machine_load(trace), -1),
            R"([{"name":"busy_share","mean":0.5,"max":0.75},)"
            R"({"name":"lateness_share","mean":-1.0,"max":-1.0}])");
  EXPECT_EQ(to_json(machine_load({}), -1), "[]");
}

TEST(Timeline, RecordsBecomeCurves) {
  Trace trace;
  trace.records = {{"loss", 2, 1, {}, 4.5},
                   {"loss", 1, 1, {}, 5.5},
                   {"loss", 2, 0, {}, 4.25},
                   {"loss", 3, 1, {}, std::numeric_limits<double>::quiet_NaN()}};
  // Rank 0 speaks for iteration 2; what is no number cannot be drawn.
  EXPECT_EQ(to_json(record_curves(trace), -1),
            R"({"loss":{"iteration":[1,2],"value":[5.5,4.25]}})");
}

TEST(Timeline, DecisionsSayHowMuchFromWhenOnAndWhy) {
  Trace trace;
  EXPECT_TRUE(density_decisions(trace).is_null());
  trace.records = {{"density", 1, 1, {}, 0.02},       {"density", 1, 0, {}, 0.01},
                   {"density", 2, 0, {}, 0.02, "up"}, {"density", 3, 0, {}, 0.02},
                   {"density", 4, 0, {}, 0.04},       {"density", 5, 0, {}, 0.03, "down"},
                   {"line_rate", 2, 0, {}, 500'000},  {"loss", 5, 0, {}, 3, "not of a density"}};
  EXPECT_EQ(
      to_json(density_decisions(trace), -1),
      R"({"changed":3,"reasons":2,"newest":[)"
      R"({"iteration":2,"before":0.01,"density":0.02,"line_bytes_per_s":500000.0,"reason":"up"},)"
      R"({"iteration":5,"before":0.04,"density":0.03,"line_bytes_per_s":null,"reason":"down"}]})");
}

TEST(Timeline, DivisionsOfABatchSayToWhomFromWhenOnAndWhy) {
  Trace trace;
  EXPECT_TRUE(batch_decisions(trace).is_null());
  // Ranks 2 and 3 speak for two pipelines.
  trace.records = {{"microbatches", 1, 2, {}, 6},
                   {"microbatches", 1, 3, {}, 6},
                   {"microbatches", 2, 2, {}, 6},
                   {"microbatches", 2, 3, {}, 6},
                   {"microbatches", 3, 3, {}, 4},
                   {"microbatches", 3, 2, {}, 8, "slow"},
                   {"microbatches", 4, 2, {}, 7},
                   {"microbatches", 4, 3, {}, 5},
                   {"microbatches", 5, 2, {}, 7},
                   {"microbatches", 5, 3, {}, 5},
                   {"microbatches", 6, 2, {}, 9},
                   {"microbatches", 7, 2, {}, 1e300},
                   {"loss", 3, 3, {}, 1.5, "not of a batch"}};
  EXPECT_EQ(
      to_json(batch_decisions(trace), -1),
      R"({"iteration":[1,3,4,5],"each":true,"pipelines":[[6,8,7,7],[6,4,5,5]],"changed":2,"reasons":1,)"
      R"("newest":[{"iteration":3,"before":[6,6],"microbatches":[8,4],"reason":"slow"}]})");
}

TEST(Timeline, OfManyPipelinesTheFewestAndTheMostMicrobatchesAreEmbedded) {
  Trace trace;
  for (int32_t rank = 0; rank < 17; ++rank) {
    trace.records.push_back({"microbatches", 1, rank, {}, 6});
    trace.records.push_back({"microbatches", 2, rank, {}, rank == 3 ? 4.0 : rank == 5 ? 8.0 : 6.0});
  }
  trace.records.back().reason = "slow";
  EXPECT_EQ(
      to_json(batch_decisions(trace), -1),
      R"({"iteration":[1,2,2],"each":false,"pipelines":[[6,4,4],[6,8,8]],"changed":1,"reasons":1,)"
      R"("newest":[{"iteration":2,"before":[6,6],"microbatches":[4,8],"reason":"slow"}]})");
}

TEST(Timeline, OfManyDecisionsTheNewestAreEmbedded) {
  Trace trace;
  constexpr auto kAll = static_cast<int64_t>(kDecisionsMax) + 5;
  for (int64_t i = 1; i <= kAll; ++i)
    trace.records.push_back({"density", i, 0, {}, 1.0 / double(i), "down"});
  const Value decisions = density_decisions(trace);
  EXPECT_EQ(*decisions.find("reasons"), Value(kAll));
  EXPECT_EQ(*decisions.find("changed"), Value(kAll - 1));
  const auto& newest = *decisions.find("newest")->get<Value::Array>();
  ASSERT_EQ(newest.size(), kDecisionsMax);
  EXPECT_EQ(*newest.front().find("iteration"), Value(6));
  EXPECT_EQ(*newest.back().find("iteration"), Value(kAll));
}

TEST(Template, FillsEveryNameOnce) {
  EXPECT_EQ(fill_template("a {{x}} b {{y}}{{x}}", {{"x", "{{y}}"}, {"y", "2"}}),
            "a {{y}} b 2{{y}}");
  EXPECT_DEATH(fill_template("{{z}}", {}), "asks for z");
}

TEST(Template, EscapesWhatHtmlAndScriptsWouldRead) {
  EXPECT_EQ(escape_html("<a href=\"x\">'&'"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
  EXPECT_EQ(script_json(Value("</script>&\xe2\x80\xa8")),
            "\"\\u003c/script\\u003e\\u0026\\u2028\"");
}

}  // namespace
}  // namespace tombolo::report
