#include "spec/trace/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "support/folder_test.h"

namespace tombolo::trace {
namespace {

using ::testing::HasSubstr;

Trace whole_trace() {
  Trace trace;
  trace.header.provenance = Provenance::kEmulated;
  trace.header.name = "a \"quoted\" name";
  trace.header.command = "tombolo train job.toml";
  trace.header.plan_digest = "0123456789abcdef";
  trace.header.seed = UINT64_MAX;
  trace.header.byte_scale = 20;
  trace.header.ranks = {{0, 0, "oregon", "emulated:a100-80g"}, {1, 1, "paris", "cpu", 2}};
  trace.header.plan = Value(Value::Table{{"tombolo_plan", 1}});
  trace.intervals = {{.lane = Lane::kCompute,
                      .rank = 0,
                      .action = {action::ActionKind::kForward, 0, 0},
                      .iteration = 1,
                      .start = {0},
                      .end = {1000}},
                     {.lane = Lane::kLink,
                      .rank = 0,
                      .peer = 1,
                      .action = {action::ActionKind::kSendActivation, 0, 0},
                      .iteration = 1,
                      .start = {1000},
                      .end = {INT64_MAX},
                      .bytes = INT64_MAX},
                     {.lane = Lane::kCollective,
                      .rank = 1,
                      .action = {action::ActionKind::kReduceGradients, 1, -1},
                      .iteration = 1,
                      .start = {2000},
                      .end = {3000},
                      .bytes = 512,
                      .part = 3},
                     {.lane = Lane::kCompute,
                      .rank = INT32_MAX,
                      .action = {action::ActionKind::kUpdate, INT32_MAX, -1},
                      .iteration = INT64_MAX,
                      .start = {INT64_MIN},
                      .end = {INT64_MAX}}};
  trace.records = {{"loss", 1, 1, {5}, 0.1},
                   {"loss", 2, 1, {6}, 5e-324},
                   {"density", 2, 0, {6}, 0.01, "a \"reason\"\nof two lines"}};
  return trace;
}

std::string complaint(const std::string& text) {
  const Result<Trace> trace = parse_trace(text, "t.jsonl");
  return trace ? "accepted" : trace.error().text();
}

TEST(TraceFile, ReadsBackWhatItWritesToTheLastBit) {
  const Trace trace = whole_trace();
  const std::string text = to_json_lines(trace);
  const Result<Trace> again = parse_trace(text, "t.jsonl");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(*again, trace);
  EXPECT_EQ(to_json_lines(*again), text);
}

TEST(TraceFile, NamesCollectivesAndReplicasInItsLines) {
  const std::string text = to_json_lines(whole_trace());
  EXPECT_THAT(text,
              HasSubstr(R"({"action":"1REDUCE_GRAD","lane":"collective","rank":1,)"
                        R"("iteration":1,"start_ns":2000,"end_ns":3000,"bytes":512,"part":3})"));
  EXPECT_THAT(text, HasSubstr(R"({"rank":1,"stage":1,"replica":2,"datacenter":"paris")"));
}

// A record without a reason is written as before there were any.
TEST(TraceFile, AReasonStandsWhereThereIsOne) {
  Trace trace;
  trace.records = {{"density", 7, 0, {5}, 0.01, "the line carries 4 Mbps"},
                   {"density", 8, 0, {6}, 0.01}};
  const std::string text = to_json_lines(trace);
  EXPECT_THAT(text,
              HasSubstr(R"({"record":"density","iteration":7,"rank":0,"at_ns":5,"value":0.01,)"
                        R"("reason":"the line carries 4 Mbps"})"));
  EXPECT_THAT(text,
              HasSubstr(R"({"record":"density","iteration":8,"rank":0,"at_ns":6,"value":0.01})"));
  EXPECT_EQ(*parse_trace(text, "t.jsonl"), trace);
}

// A run of a graph: no Plan, but what it was made from and what it came to.
TEST(TraceFile, HoldsNodesBesideActions) {
  Trace trace;
  GraphRun& run = trace.header.graph.emplace();
  run.inputs = {{"law", "analytical"}};
  run.exposed = {{"rank 0", {.compute = {5}, .communication = {7}}}};
  run.dimensions = {{"0: Ring(4)", 4096, 1024, 1024, 0.25, 0.5}};
  run.left_out = {"All but rank 0."};
  trace.header.ranks = {{.rank = 0, .stands_for = 4}};
  trace.intervals = {{.lane = Lane::kDimension,
                      .rank = 0,
                      .action = {action::ActionKind::kNode, 1, 3},
                      .iteration = 1,
                      .end = {12},
                      .origin = GraphPart{"chunk 3 of \"gradients\""}}};
  const std::string text = to_json_lines(trace);
  const Result<Trace> again = parse_trace(text, "t.jsonl");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(*again, trace);
  EXPECT_THAT(text, HasSubstr(R"({"action":"1NODE3","lane":"dimension","rank":0,"iteration":1,)"
                              R"("start_ns":0,"end_ns":12,"name":"chunk 3 of \"gradients\""})"));
  std::string wrong = text;
  wrong.replace(wrong.find("\"idle_ns\":0"), 11, "\"idle_ns\":-1");
  EXPECT_THAT(complaint(wrong), HasSubstr("graph.exposed[0].time.idle_ns = -1"));
}

TEST(TraceFile, AnEmptyTraceReadsBack) {
  EXPECT_EQ(*parse_trace(to_json_lines({}), "t.jsonl"), Trace{});
}

// Cut anywhere before its last line's end brace, a file is refused and not read as a shorter one.
TEST(TraceFile, EveryTruncationIsSeen) {
  const std::string text = to_json_lines(whole_trace());
  for (size_t length = 0; length + 1 < text.size(); ++length) {
    EXPECT_NE(complaint(text.substr(0, length)), "accepted") << "cut at " << length;
  }
  const size_t last_line = text.rfind('\n', text.size() - 2) + 1;
  EXPECT_THAT(complaint(text.substr(0, last_line)), HasSubstr("the file is truncated"));
}

TEST(TraceFile, RefusesAnotherVersion) {
  EXPECT_THAT(complaint("{\"tombolo_trace\":2,\"provenance\":\"predicted\"}\n"),
              HasSubstr("this program reads version 1"));
}

TEST(TraceFile, RefusesAnotherFile) {
  EXPECT_THAT(complaint("{\"tombolo_plan\":1}\n"), HasSubstr("this is not a Trace file"));
  EXPECT_NE(complaint("not json\n"), "accepted");
}

TEST(TraceFile, RefusesLinesThatDoNotAddUp) {
  std::string text = to_json_lines(whole_trace());
  const size_t second = text.find('\n') + 1;
  text.erase(second, text.find('\n', second) - second + 1);
  EXPECT_THAT(complaint(text), HasSubstr("the count in the last line does not fit"));
  EXPECT_THAT(complaint(to_json_lines(whole_trace()) + "{}\n"), HasSubstr("does not fit"));
}

TEST(TraceFile, RefusesIntervalsThatCannotBe) {
  const auto with = [](const std::string& line) {
    return complaint("{\"tombolo_trace\":1,\"provenance\":\"predicted\"}\n" + line + "\n");
  };
  EXPECT_THAT(
      with(R"({"action":"0F0","lane":"compute","rank":0,"iteration":1,"start_ns":5,"end_ns":4})"),
      HasSubstr("lies before start_ns"));
  EXPECT_THAT(
      with(R"({"action":"0Z0","lane":"compute","rank":0,"iteration":1,"start_ns":5,"end_ns":6})"),
      HasSubstr("t.jsonl:2: \"0Z0\" is not an action"));
  EXPECT_THAT(
      with(R"({"action":"0F0","lane":"sea","rank":0,"iteration":1,"start_ns":5,"end_ns":6})"),
      HasSubstr("one of compute, link, collective"));
}

using TraceOnDisk = FolderTest;

TEST_F(TraceOnDisk, IsReadAsItWasWritten) {
  const std::string path = at("trace.jsonl");
  ASSERT_TRUE(write_trace(path, whole_trace()));
  EXPECT_EQ(*read_trace(path), whole_trace());
  EXPECT_FALSE(read_trace(path + ".gone"));
}

TEST(Trace, NormalizeSortsByTimeAndPlace) {
  Trace trace;
  const auto at = [](int64_t start, int32_t rank) {
    return Interval{.rank = rank, .iteration = 1, .start = {start}, .end = {start + 1}};
  };
  trace.intervals = {at(5, 0), at(2, 1), at(2, 0)};
  normalize(trace);
  EXPECT_EQ(trace.intervals, (std::vector<Interval>{at(2, 0), at(2, 1), at(5, 0)}));
}

// Iteration 0 (evaluation, checkpoints) does not count. The median of 4 and 7 is 5.5, rounded down.
TEST(Trace, IterationTimesSpanAllRanks) {
  Trace trace;
  const auto add = [&](int64_t iteration, int32_t rank, int64_t start, int64_t end) {
    trace.intervals.push_back(
        {.rank = rank, .iteration = iteration, .start = {start}, .end = {end}});
  };
  add(0, 0, 0, 100);
  add(1, 0, 10, 12);
  add(1, 1, 11, 14);
  add(2, 0, 14, 21);
  const std::vector<IterationTime> times = iteration_times(trace);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].start.ns, 10);
  EXPECT_EQ(times[0].end.ns, 14);
  EXPECT_EQ(median_iteration(times).ns, 5);
  EXPECT_EQ(median_iteration({}).ns, 0);
}

TEST(Trace, TimesDoNotRunBackwards) {
  Trace trace;
  trace.intervals = {{.rank = 3, .iteration = 1, .start = {7}, .end = {5}}};
  EXPECT_DEATH(iteration_times(trace), "rank 3 is at work from 7 to 5 ns");
  EXPECT_DEATH(median_iteration({{2, SimTime{7}, SimTime{5}}}), "iteration 2 lasts from 7 to 5 ns");
}

TEST(TraceFile, WhatIsWrittenCanBeRead) {
  const auto written = [](Interval interval) {
    Trace trace;
    trace.intervals = {std::move(interval)};
    return to_json_lines(trace);
  };
  EXPECT_DEATH(written({.rank = 3, .start = {7}, .end = {5}}), "rank 3 is at work from 7 to 5 ns");
  EXPECT_DEATH(written({.rank = -3}), "rank -3 has 0 bytes in iteration 0");
  EXPECT_DEATH(written({.action = {action::ActionKind::kForward, -1, 0}}),
               "an action of stage -1 and microbatch 0");
}

}  // namespace
}  // namespace tombolo::trace
