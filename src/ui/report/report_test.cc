#include "ui/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "spec/trace/machine_words.h"
#include "support/page_data.h"
#include "ui/report/template.h"

namespace tombolo::report {
namespace {

using action::ActionKind;
using testing::HasSubstr;
using testing::Not;
using trace::Lane;
using trace::Provenance;
using trace::Trace;

// Two ranks and one microbatch. An iteration of `f`: forward 0 in [0, f), the activation on its
// way in [f, f + 5), forward 1 in [f + 5, f + 15). So it takes f + 15 ns.
void add_iteration(Trace& trace, int64_t iteration, int64_t at, int64_t f) {
  trace.intervals.push_back(
      {Lane::kCompute, 0, -1, {ActionKind::kForward, 0, 0}, iteration, {at}, {at + f}, 0});
  trace.intervals.push_back({Lane::kLink,
                             0,
                             1,
                             {ActionKind::kSendActivation, 0, 0},
                             iteration,
                             {at + f},
                             {at + f + 5},
                             4096});
  trace.intervals.push_back({Lane::kCompute,
                             1,
                             -1,
                             {ActionKind::kForward, 1, 0},
                             iteration,
                             {at + f + 5},
                             {at + f + 15},
                             0});
}

Trace make_trace(Provenance provenance, const std::vector<int64_t>& forwards) {
  Trace trace;
  trace.header.provenance = provenance;
  trace.header.name = "toy";
  trace.header.plan_digest = "d1";
  trace.header.ranks = {{0, 0, "oregon", "cpu"}, {1, 1, "paris", "cpu"}};
  int64_t at = 1000;
  for (size_t i = 0; i < forwards.size(); ++i) {
    add_iteration(trace, static_cast<int64_t>(i) + 1, at, forwards[i]);
    at += 100;
  }
  trace::normalize(trace);
  return trace;
}

const Value& at(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  if (!found) throw std::runtime_error("no key " + std::string(key));
  return *found;
}
const Value& at(const Value& value, size_t index) { return value.get<Value::Array>()->at(index); }

TEST(Report, CarriesTheNumbersOfBothTraces) {
  const std::vector<Trace> traces = {make_trace(Provenance::kMeasured, {50, 20, 20}),
                                     make_trace(Provenance::kPredicted, {10})};
  const Result<std::string> html = render_html({}, traces);
  ASSERT_TRUE(html) << html.error().text();
  const Value data = data_of(*html);

  // The prediction comes first, whatever the order on the command line.
  const Value& predicted = at(at(data, "traces"), 0);
  const Value& measured = at(at(data, "traces"), 1);
  EXPECT_EQ(at(predicted, "provenance"), Value("predicted"));
  // Predicted 10 + 15 = 25 ns. Measured 20 + 15 = 35 ns: the first iteration is warm-up.
  EXPECT_EQ(at(at(predicted, "summary"), "median_ns"), Value(25));
  EXPECT_EQ(at(at(measured, "summary"), "median_ns"), Value(35));
  EXPECT_EQ(at(at(measured, "summary"), "iterations"), Value(2));
  EXPECT_EQ(at(at(measured, "summary"), "warmup"), Value(1));
  // (25 - 35) / 35
  EXPECT_DOUBLE_EQ(*at(at(data, "comparison"), "error").get<double>(), -10.0 / 35);

  // Rank 0 computes 20 of 35 ns, waits 5 for its message, and has nothing to do for 10.
  const Value& rank0 = at(at(measured, "breakdown"), 0);
  EXPECT_EQ(at(rank0, "compute_ns"), Value(20.0));
  EXPECT_EQ(at(rank0, "exposed_communication_ns"), Value(5.0));
  EXPECT_EQ(at(rank0, "idle_ns"), Value(10.0));
}

// Rank 0 waits 5 ns for its message and has nothing to do for 10: of the two, prompts take what they take.
TEST(Report, ShowsPromptsInTheGaps) {
  Trace trace = make_trace(Provenance::kMeasured, {20});
  const trace::IterationTime whole = trace::iteration_times(trace).front();
  trace.intervals.push_back(
      {Lane::kCompute, 0, -1, {ActionKind::kPrompt, 0, -1}, 0, whole.start, whole.end, 0});
  trace::normalize(trace);
  const Value data = data_of(*render_html({}, {&trace, 1}));
  const Value& measured = at(at(data, "traces"), 0);
  const Value& rank0 = at(at(measured, "breakdown"), 0);
  EXPECT_EQ(at(rank0, "compute_ns"), Value(20.0));
  EXPECT_EQ(at(rank0, "prompts_ns"), Value(15.0));
  EXPECT_EQ(at(rank0, "exposed_communication_ns"), Value(0.0));
  EXPECT_EQ(at(rank0, "idle_ns"), Value(0.0));
  EXPECT_EQ(at(at(at(measured, "breakdown"), 1), "prompts_ns"), Value(0.0));
  EXPECT_NE(to_json(at(measured, "timeline"), -1).find("\"0PROMPT\""), std::string::npos);
}

TEST(Report, ComparesKindsPerStage) {
  const std::vector<Trace> traces = {make_trace(Provenance::kPredicted, {10}),
                                     make_trace(Provenance::kEmulated, {50, 20, 20})};
  const Value data = data_of(*render_html({}, traces));
  // Forward of stage 0: 10 ns predicted, 20 ns emulated after the warm-up.
  const Value& row = at(at(at(data, "comparison"), "rows"), 0);
  EXPECT_EQ(at(row, "kind"), Value("F"));
  EXPECT_EQ(at(row, "stage"), Value(0));
  EXPECT_DOUBLE_EQ(*at(row, "first_ns").get<double>(), 10);
  EXPECT_DOUBLE_EQ(*at(row, "second_ns").get<double>(), 20);
  EXPECT_DOUBLE_EQ(*at(row, "error").get<double>(), -0.5);
}

TEST(Report, WorksWithOneTrace) {
  const std::vector<Trace> one = {make_trace(Provenance::kMeasured, {20})};
  const Result<std::string> html = render_html({.title = "alone"}, one);
  ASSERT_TRUE(html) << html.error().text();
  const Value data = data_of(*html);
  EXPECT_EQ(at(data, "title"), Value("alone"));
  EXPECT_TRUE(at(data, "comparison").is_null());
  EXPECT_TRUE(at(data, "plan").is_null());
  // A single iteration is all there is: it is not called warm-up.
  EXPECT_EQ(at(at(at(at(data, "traces"), 0), "summary"), "iterations"), Value(1));
}

// They are the commands' own; of two Traces each has its, wherever it stands. What is not known is null.
TEST(Report, ShowsTheFiguresThatItIsGiven) {
  const std::vector<Trace> traces = {make_trace(Provenance::kMeasured, {20}),
                                     make_trace(Provenance::kPredicted, {10})};
  const Figures measured{.tokens_per_s = 12,
                         .mfu = {},
                         .cost = Dollars{3},
                         .devices = 4,
                         .memory_peak = 5_GB,
                         .memory = 6_GB,
                         .memory_rank = 1};
  const Value data = data_of(*render_html({.figures = {measured, std::nullopt}}, traces));
  EXPECT_TRUE(at(at(at(data, "traces"), 0), "figures").is_null());
  const Value& shown = at(at(at(data, "traces"), 1), "figures");
  EXPECT_EQ(to_json(shown, -1),
            R"({"tokens_per_s":12.0,"mfu":null,"cost_usd":3.0,"devices":4,)"
            R"("memory_peak_bytes":5000000000.0,"memory_bytes":6000000000.0,"memory_rank":1})");
}

TEST(Report, SaysHowBusyTheMachineWas) {
  Trace trace = make_trace(Provenance::kEmulated, {20});
  EXPECT_TRUE(at(at(at(data_of(*render_html({}, {&trace, 1})), "traces"), 0), "busy").is_null());
  trace.records = {{trace::kCpuBusyRecord, 1, 0, {}, 0.875}, {trace::kTooBusyRecord, 1, 0, {}, 1}};
  const Value data = data_of(*render_html({}, {&trace, 1}));
  const Value& busy = at(at(at(data, "traces"), 0), "busy");
  EXPECT_EQ(at(busy, "busy_share"), Value(0.875));
  EXPECT_EQ(at(busy, "too_busy"), Value(true));
}

TEST(Report, EqualTracesGiveEqualBytes) {
  const std::vector<Trace> traces = {make_trace(Provenance::kPredicted, {10, 10})};
  EXPECT_EQ(*render_html({}, traces), *render_html({}, traces));
}

// The page looks kinds up by name; one that it does not know would leave the timeline empty.
TEST(Report, KnowsTheColorOfEveryKind) {
  const std::string words(asset("words.js"));
  const std::string style(asset("page.css"));
  for (const auto& [kind, name] : enum_names(ActionKind{})) {
    const std::string entry = fmt::format("\n  {}: {{name: ", name);
    const size_t at = words.find(entry);
    ASSERT_NE(at, std::string::npos) << name;
    const size_t color = words.find("--kind-", at);
    EXPECT_THAT(style, HasSubstr(words.substr(color, words.find('"', color) - color) + ":"));
  }
}

TEST(Report, FetchesNothing) {
  const std::string html = *render_html({}, std::vector{make_trace(Provenance::kPredicted, {10})});
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, Not(HasSubstr("<script src")));
  EXPECT_THAT(html, Not(HasSubstr("<link rel=\"stylesheet\"")));
  EXPECT_THAT(html, Not(HasSubstr("@import")));
}

TEST(Report, HostileNamesStayNames) {
  Trace trace = make_trace(Provenance::kPredicted, {10});
  trace.header.name = "</script><script>alert(1)</script>{{data}}<!--";
  trace.header.ranks[0].datacenter = "<img src=x onerror=alert(2)>";
  trace.header.command = "broken \xff byte";
  const std::string html = *render_html({}, std::vector{trace});
  EXPECT_THAT(html, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html,
              HasSubstr("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;{{data}}&lt;!--"));
  const Value data = data_of(html);
  EXPECT_EQ(at(data, "title"), Value(trace.header.name));
}

TEST(Report, RefusesWhatHasNothingToShow) {
  EXPECT_EQ(render_html({}, {}).error().code, ErrorCode::kUnusable);
  const std::vector<Trace> three(3, make_trace(Provenance::kPredicted, {10}));
  EXPECT_THAT(render_html({}, three).error().message, HasSubstr("not 3"));

  // Evaluation alone is no iteration.
  Trace empty = make_trace(Provenance::kMeasured, {});
  empty.intervals.push_back(
      {Lane::kCompute, 0, -1, {ActionKind::kEvaluate, 0, -1}, 0, {0}, {5}, 0});
  const Result<std::string> html =
      render_html({}, std::vector{make_trace(Provenance::kPredicted, {10}), empty});
  ASSERT_FALSE(html);
  EXPECT_EQ(html.error().code, ErrorCode::kUnusable);
  EXPECT_THAT(html.error().message, HasSubstr("the second Trace (measured, \"toy\")"));
}

TEST(Report, RefusesABrokenPlan) {
  Trace trace = make_trace(Provenance::kPredicted, {10});
  trace.header.plan = Value::Table{{"tombolo_plan", 1}};
  const Result<std::string> html = render_html({}, std::vector{trace});
  ASSERT_FALSE(html);
  EXPECT_THAT(html.error().message, HasSubstr("the Plan in the predicted Trace"));
}

}  // namespace
}  // namespace tombolo::report
