#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/json.h"
#include "base/random.h"
#include "spec/trace/trace_file.h"

namespace tombolo::trace {
namespace {

using ::testing::HasSubstr;

Trace sample() {
  Trace trace;
  trace.header.ranks = {{0, 0, "ore\"gon", "cpu"}, {1, 1, "paris", "cpu"}};
  trace.intervals = {{.lane = Lane::kCompute,
                      .rank = 0,
                      .action = {action::ActionKind::kForward, 0, 3},
                      .iteration = 1,
                      .start = {0},
                      .end = {1500}},
                     {.lane = Lane::kLink,
                      .rank = 0,
                      .peer = 1,
                      .action = {action::ActionKind::kSendActivation, 0, 3},
                      .iteration = 1,
                      .start = {1500},
                      .end = {9'007'199'254'740'993},  // no double holds this
                      .bytes = 64},
                     {.lane = Lane::kCompute,
                      .rank = 1,
                      .action = {action::ActionKind::kForward, 1, 3},
                      .iteration = 1,
                      .start = {9'007'199'254'740'993},
                      .end = {9'007'199'254'740'994}}};
  trace.records = {{"loss", 1, 1, {2000}, 5.5}};
  return trace;
}

void expect_no_partial_overlap(const std::string& text) {
  struct Bar {
    double start = 0, end = 0;
  };
  std::map<std::pair<int64_t, int64_t>, std::vector<Bar>> tracks;
  const Value json = *parse_json(text, "trace.json");
  for (const Value& event : *json.find("traceEvents")->get<Value::Array>()) {
    if (*event.find("ph") != Value("X")) continue;
    const double start = *event.find("ts")->get<double>();
    tracks[{*event.find("pid")->get<int64_t>(), *event.find("tid")->get<int64_t>()}].push_back(
        {start, start + *event.find("dur")->get<double>()});
  }
  for (const auto& [track, bars] : tracks) {
    for (const Bar& a : bars) {
      for (const Bar& b : bars) {
        const bool partly = a.start < b.start && b.start < a.end - 1e-6 && a.end < b.end - 1e-6;
        EXPECT_FALSE(partly) << fmt::format("rank {}, thread {}: {} to {}, {} to {}", track.first,
                                            track.second, a.start, a.end, b.start, b.end);
      }
    }
  }
}

TEST(Perfetto, IsJsonWithNamesTimesAndArrows) {
  const std::string text = to_perfetto(sample());
  const Result<Value> json = parse_json(text, "trace.json");
  ASSERT_TRUE(json) << json.error().text();
  // 2 processes, 3 lanes, 3 intervals, an arrow's two ends, 1 counter.
  EXPECT_EQ(json->find("traceEvents")->get<Value::Array>()->size(), 2u + 3 + 3 + 2 + 1);
  EXPECT_THAT(text, HasSubstr(R"~("name":"ore\"gon: rank 0, stage 0 (cpu)")~"));
  EXPECT_THAT(text,
              HasSubstr(R"("name":"0F3","cat":"compute","pid":0,"tid":0,"ts":0.000,"dur":1.500)"));
  EXPECT_THAT(text, HasSubstr(R"("ts":9007199254740.993)"));
  EXPECT_THAT(
      text,
      HasSubstr(R"("ph":"s","name":"message","cat":"message","id":0,"pid":0,"tid":3,"ts":1.500)"));
  EXPECT_THAT(
      text,
      HasSubstr(R"("ph":"f","bp":"e","name":"message","cat":"message","id":0,"pid":1,"tid":0)"));
  EXPECT_THAT(text, HasSubstr(R"("args":{"iteration":1,"microbatch":3,"bytes":64})"));
  EXPECT_THAT(text, HasSubstr(R"("ph":"C","name":"loss","pid":1,"ts":2.000,"args":{"value":5.5})"));
}

TEST(Perfetto, AReasonIsAnInstant) {
  Trace trace;
  trace.records = {{"density", 7, 1, {2000}, 0.01, "of \"two\""}};
  const std::string text = to_perfetto(trace);
  ASSERT_TRUE(parse_json(text, "trace.json"));
  EXPECT_THAT(text,
              HasSubstr(R"("ph":"C","name":"density","pid":1,"ts":2.000,"args":{"value":0.01})"));
  EXPECT_THAT(
      text,
      HasSubstr(
          R"("ph":"i","s":"p","name":"density 0.01","cat":"decision","pid":1,"tid":0,"ts":2.000,)"
          R"("args":{"iteration":7,"reason":"of \"two\""}})"));
}

// Bars of a track do not overlap: a backward concurrent with a forward has one of its own, and the
// message for it ends there.
TEST(Perfetto, CoExecutedPassesHaveATrackEach) {
  Trace trace = sample();
  trace.intervals = {{.lane = Lane::kLink,
                      .rank = 1,
                      .peer = 0,
                      .action = {action::ActionKind::kSendGradient, 1, 2},
                      .iteration = 1,
                      .start = {0},
                      .end = {100},
                      .bytes = 64},
                     {.lane = Lane::kCompute,
                      .rank = 0,
                      .action = {action::ActionKind::kForward, 0, 3},
                      .iteration = 1,
                      .start = {100},
                      .end = {1500}},
                     {.lane = Lane::kCompute,
                      .rank = 0,
                      .action = {action::ActionKind::kBackward, 0, 2},
                      .iteration = 1,
                      .start = {100},
                      .end = {1800}},
                     {.lane = Lane::kCompute,
                      .rank = 0,
                      .action = {action::ActionKind::kForward, 0, 4},
                      .iteration = 1,
                      .start = {1800},
                      .end = {2000}}};
  const std::string text = to_perfetto(trace);
  EXPECT_THAT(text, HasSubstr(R"("name":"0F3","cat":"compute","pid":0,"tid":0)"));
  EXPECT_THAT(text, HasSubstr(R"("name":"0B2","cat":"compute","pid":0,"tid":1073741824)"));
  EXPECT_THAT(text, HasSubstr(R"("name":"0F4","cat":"compute","pid":0,"tid":0)"));
  EXPECT_THAT(text, HasSubstr(R"~("name":"compute (2)")~"));
  EXPECT_THAT(text,
              HasSubstr(R"("ph":"f","bp":"e","name":"message","cat":"message","id":0,"pid":0,)"
                        R"("tid":1073741824)"));
}

// A message is on its way for longer than the link takes to send it: the next one gets a track of its
// own, and its arrow begins there. The third one follows the first.
TEST(Perfetto, MessagesOnTheirWayTogetherHaveATrackEach) {
  Trace trace;
  trace.header.ranks = {{0, 0, "oregon", "cpu"}, {1, 1, "paris", "cpu"}};
  for (int32_t m = 0; m < 3; ++m) {
    trace.intervals.push_back({.lane = Lane::kLink,
                               .rank = 0,
                               .peer = 1,
                               .action = {action::ActionKind::kSendActivation, 0, m},
                               .iteration = 1,
                               .start = {1000 * m},
                               .end = {1000 * m + 2000},
                               .bytes = 64});
    trace.intervals.push_back({.lane = Lane::kCompute,
                               .rank = 1,
                               .action = {action::ActionKind::kForward, 1, m},
                               .iteration = 1,
                               .start = {1000 * m + 2000},
                               .end = {1000 * m + 3000}});
  }
  normalize(trace);
  const std::string text = to_perfetto(trace);
  for (const char* bar :
       {R"("0SEND_F0","cat":"link","pid":0,"tid":3,)",
        R"("0SEND_F1","cat":"link","pid":0,"tid":1073741824,)",
        R"("0SEND_F2","cat":"link","pid":0,"tid":3,)",
        R"("ph":"s","name":"message","cat":"message","id":1,"pid":0,"tid":1073741824)",
        R"~("link to rank 1 (2)")~"}) {
    EXPECT_THAT(text, HasSubstr(bar));
  }
}

// On any track of any Trace: a bar lies outside another one or inside it.
TEST(Perfetto, BarsOfATrackNeverOverlapPartly) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    Trace trace;
    for (uint64_t i = 0; i <= random.below(60); ++i) {
      const auto start = static_cast<int64_t>(random.below(20));
      trace.intervals.push_back({.lane = static_cast<Lane>(random.below(7)),
                                 .rank = static_cast<int32_t>(random.below(2)),
                                 .peer = static_cast<int32_t>(random.below(3)) - 1,
                                 .action = {static_cast<action::ActionKind>(random.below(19)),
                                            static_cast<int32_t>(random.below(2)), -1},
                                 .iteration = 1,
                                 .start = {start},
                                 .end = {start + static_cast<int64_t>(random.below(10))}});
    }
    if (random.below(2) == 0) normalize(trace);
    expect_no_partial_overlap(to_perfetto(trace));
  }
}

// Two pipelines: their ranks' processes name them, and the gradient all-reduce has a track in
// addition to the computations', which it may overlap.
TEST(Perfetto, CollectivesHaveATrackOfTheirOwn) {
  Trace trace;
  trace.header.ranks = {{0, 0, "oregon", "cpu", 0}, {1, 0, "oregon", "cpu", 1}};
  trace.intervals = {{.lane = Lane::kCollective,
                      .rank = 1,
                      .action = {action::ActionKind::kReduceGradients, 0, -1},
                      .iteration = 2,
                      .start = {1000},
                      .end = {3000},
                      .bytes = 512}};
  const std::string text = to_perfetto(trace);
  ASSERT_TRUE(parse_json(text, "trace.json"));
  EXPECT_THAT(text, HasSubstr("oregon: rank 1, stage 0, pipeline 1 (cpu)"));
  EXPECT_THAT(text, HasSubstr(R"("thread_name","pid":1,"tid":1,"args":{"name":"collectives"})"));
  EXPECT_THAT(text, HasSubstr(R"("name":"0REDUCE_GRAD","cat":"collective","pid":1,"tid":1,)"
                              R"("ts":1.000,"dur":2.000,)"
                              R"("args":{"iteration":2,"microbatch":-1,"bytes":512})"));
}

// A rank's receives overlap: each gets a track. Names are the nodes' own.
TEST(Perfetto, DrawsNodesOfGraphsInATrackOfEachLane) {
  Trace trace;
  trace.header.graph.emplace();
  trace.header.ranks = {{.rank = 5, .stands_for = 16}};
  const auto add = [&](Lane lane, int32_t dimension, std::string name, int64_t start, int64_t end) {
    trace.intervals.push_back({.lane = lane,
                               .rank = 5,
                               .action = {action::ActionKind::kNode, dimension, -1},
                               .iteration = 1,
                               .start = {start},
                               .end = {end},
                               .origin = GraphPart{std::move(name)}});
  };
  add(Lane::kReceive, 0, "RECV a", 0, 2000);
  add(Lane::kCollective, 0, "ALL_REDUCE \"b\"", 0, 3000);
  add(Lane::kDimension, 2, "chunk 0", 0, 1000);
  add(Lane::kReceive, 0, "RECV c", 1000, 3000);
  const std::string text = to_perfetto(trace);
  ASSERT_TRUE(parse_json(text, "trace.json"));
  EXPECT_THAT(text, HasSubstr(R"~("args":{"name":"rank 5 (stands for 16)"})~"));
  for (const char* track : {"receives", "receives (2)", "communicator", "dimension 2"}) {
    EXPECT_THAT(text, HasSubstr(fmt::format(R"~("args":{{"name":"{}"}})~", track)));
  }
  EXPECT_THAT(text, HasSubstr(R"("name":"ALL_REDUCE \"b\"","cat":"collective","pid":5,"tid":1,)"));
  EXPECT_THAT(text, HasSubstr(R"("name":"RECV c","cat":"receive","pid":5,"tid":1073741826,)"));
  EXPECT_THAT(to_csv(trace), HasSubstr("bytes,name\n"));
  EXPECT_THAT(to_csv(trace), HasSubstr(",0,3000,0,\"ALL_REDUCE \"\"b\"\"\"\n"));
}

TEST(Perfetto, AnEmptyTraceIsJsonToo) { EXPECT_TRUE(parse_json(to_perfetto({}), "t.json")); }

TEST(TraceCsv, HasARowPerInterval) {
  Trace trace = sample();
  trace.intervals.pop_back();
  trace.intervals[1].end = {2500};
  trace.intervals.push_back({.lane = Lane::kCollective,
                             .rank = 1,
                             .action = {action::ActionKind::kReduceGradients, 1, -1},
                             .iteration = 1,
                             .start = {3000},
                             .end = {4000},
                             .bytes = 512});
  EXPECT_EQ(to_csv(trace),
            "provenance,iteration,lane,rank,peer,stage,kind,microbatch,start_ns,end_ns,bytes\n"
            "predicted,1,compute,0,,0,F,3,0,1500,0\n"
            "predicted,1,link,0,1,0,SEND_F,3,1500,2500,64\n"
            "predicted,1,collective,1,,1,REDUCE_GRAD,,3000,4000,512\n");
}

}  // namespace
}  // namespace tombolo::trace
