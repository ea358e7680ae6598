#include "predict/prefill_sim/prefill_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "spec/plan/job.h"

namespace tombolo::prefill_sim {
namespace {

using ::testing::HasSubstr;

// Two stages of two pipelines, in one datacenter each.
plan::Plan plan_of(const std::string& prefill) {
  const Result<plan::Job> job = plan::parse_job(R"([model]
preset = "gpt2"
[[cluster.datacenter]]
name = "west"
device = "a100-80g"
nodes = 2
[[cluster.datacenter]]
name = "east"
device = "a100-80g"
nodes = 2
[[cluster.wan]]
between = ["west", "east"]
one_way_latency = "10 ms"
node_pair_limit = "5 Gbps"
[training]
global_batch = 8
[parallelism]
pipeline = 2
data = 2
)" + prefill,
                                                "job.toml");
  return *plan::lay_out(*job);
}

plan::Plan plan_with_llama() {
  return plan_of("[prefill]\nmodel = \"llama3-8b\"\nmemory = \"16.1 GB\"\n");
}

// Each GPU computes half of every 400 ms, in two pieces: gaps of 100 ms.
trace::Trace half_busy(int32_t ranks) {
  trace::Trace trace;
  for (int32_t r = 0; r < ranks; ++r) trace.header.ranks.push_back({.rank = r});
  for (int64_t k = 0; k < kIterationsMin; ++k) {
    for (int32_t r = 0; r < ranks; ++r) {
      for (const int64_t at : {0, 200'000'000}) {
        const int64_t start = 400'000'000 * k + at + 10'000'000 * r;
        trace.intervals.push_back(
            {.rank = r, .iteration = k + 1, .start = {start}, .end = {start + 100'000'000}});
      }
    }
  }
  return trace;
}

std::vector<TracedRequest> requests_of(int count, double per_second, int64_t tokens_max) {
  Random random = Random(7).stream("requests");
  std::vector<TracedRequest> requests;
  double at = 0;
  for (int i = 0; i < count; ++i) {
    requests.push_back({{static_cast<int64_t>(at * 1e9)},
                        static_cast<int64_t>(1 + random.below(static_cast<uint64_t>(tokens_max)))});
    at += -std::log(1 - random.uniform()) / per_second;
  }
  return requests;
}

PrefillReport run(const std::vector<TracedRequest>& requests, PrefillRunOptions options = {}) {
  options.check = true;
  const Result<PrefillReport> report =
      run_prefill(plan_with_llama(), half_busy(4), requests, options, ManualClock());
  if (!report) throw report.error().text();
  return *report;
}

TEST(PrefillRun, OfFewPromptsTakesThemAllAndLeavesTrainingAlone) {
  const PrefillReport report = run(requests_of(200, 1, 2000));
  EXPECT_EQ(report.gpus, 4);
  EXPECT_EQ(report.pipelines, 4);
  EXPECT_EQ(report.depth_max, 1);
  EXPECT_EQ(report.period.ns, 400'000'000);
  EXPECT_DOUBLE_EQ(report.utilization_before, 0.5);
  EXPECT_GT(report.utilization_after, 0.5);
  EXPECT_DOUBLE_EQ(report.accepted_share(), 1);
  EXPECT_EQ(report.gpus_saved, 1);
  EXPECT_EQ(report.gaps.gaps, 8);
  EXPECT_EQ(report.gaps.p50.ns, 100'000'000);
}

// A load that nothing could carry fills the bubbles nearly up to the ceiling, and never above: of two
// gaps of 100 ms in 400 ms each loses its guard of 1 ms, so 1 - 2 / 400. Without suspension less fits.
TEST(PrefillRun, OfTooManyPromptsFillsTheBubbles) {
  const std::vector<TracedRequest> requests = requests_of(3000, 100, 2000);
  const PrefillReport suspended = run(requests);
  EXPECT_DOUBLE_EQ(suspended.ceiling, 0.995);
  EXPECT_LE(suspended.utilization_after, suspended.ceiling);
  EXPECT_GT(suspended.utilization_after, suspended.ceiling - 0.02);
  EXPECT_LT(suspended.accepted_share(), 0.9);
  EXPECT_EQ(suspended.accepted + suspended.no_window, 3000);
  const PrefillReport whole = run(requests, {.suspension = false});
  EXPECT_LT(whole.utilization_after, suspended.utilization_after);
}

// Many short prompts and a few long ones: the short ones fill what the long ones leave over, more than
// the mean layer of all would say, and still not the guard.
TEST(PrefillRun, ShortPromptsStayBelowTheCeilingToo) {
  std::vector<TracedRequest> requests;
  for (int i = 0; i < 20'000; ++i) {
    requests.push_back({{int64_t{1'000'000} * i}, i % 20 == 0 ? 2000 : 10});
  }
  const PrefillReport report = run(requests);
  EXPECT_DOUBLE_EQ(report.ceiling, 0.995);
  EXPECT_LE(report.utilization_after, report.ceiling);
  EXPECT_GT(report.utilization_after, 0.98);
}

TEST(PrefillRun, ScalesTheLoad) {
  const std::vector<TracedRequest> requests = requests_of(300, 1, 2000);
  const PrefillReport one = run(requests), ten = run(requests, {.scale = 10});
  EXPECT_NEAR(real(one.span.ns) / real(ten.span.ns), 10, 0.5);  // in whole periods
  EXPECT_GT(ten.tokens_per_s, 5 * one.tokens_per_s);
}

TEST(PrefillRun, BatchRequestsWaitForTheirTurn) {
  const std::vector<TracedRequest> requests = requests_of(600, 100, 2000);  // 6 s: 15 periods
  const PrefillReport refused = run(requests), queued = run(requests, {.batch = true});
  EXPECT_LT(refused.accepted, 600);
  EXPECT_EQ(queued.accepted, 600);
  EXPECT_EQ(queued.waiting, 0);
}

// 131 KB a token: 2,000 tokens are 262 MB, which 5 Gbps carry in 0.42 s; a hundred of them in half a
// minute, but not within 2 s of their coming all at once. At home every GPU has its own network.
TEST(PrefillRun, TheLineLimitsWhatIsDecodedElsewhere) {
  std::vector<TracedRequest> requests(40, TracedRequest{{0}, 2000});
  requests.push_back({{20'000'000'000}, 1});
  const PrefillReport home = run(requests), east = run(requests, {.decode = "east"});
  EXPECT_LT(east.accepted, home.accepted);
  EXPECT_GT(east.accepted, 0);
}

TEST(PrefillRun, CountsWhatIsTooLong) {
  const PrefillReport report = run({{{0}, 100}, {{5'000'000'000}, 100'000}});
  EXPECT_EQ(report.too_long, 1);
  EXPECT_EQ(report.accepted, 1);
}

// They come once; shares are of one period.
TEST(PrefillRun, TakesRequestsThatComeAllAtOnce) {
  const PrefillReport report = run({{{0}, 100}, {{0}, 100}});
  EXPECT_EQ(report.accepted, 2);
  EXPECT_EQ(report.span, report.period);
}

TEST(PrefillRun, SaysWhatCannotBe) {
  const std::vector<TracedRequest> one{{{0}, 100}};
  const auto text_of = [&](const plan::Plan& plan, const PrefillRunOptions& options) {
    const auto report = run_prefill(plan, half_busy(4), one, options, ManualClock());
    return report ? std::string("no error") : report.error().text();
  };
  EXPECT_THAT(text_of(plan_of(""), {}), HasSubstr("[prefill] with model"));
  EXPECT_THAT(text_of(plan_with_llama(), {.scale = 0}), HasSubstr("must be positive"));
  EXPECT_THAT(text_of(plan_with_llama(), {.decode = "north"}),
              HasSubstr("no datacenter \"north\""));
  EXPECT_THAT(text_of(plan_of("[prefill]\nmodel = \"llama3-8b\"\nmemory = \"2 GB\"\n"), {}),
              HasSubstr("does not fit over"));
}

}  // namespace
}  // namespace tombolo::prefill_sim
