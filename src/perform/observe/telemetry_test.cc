#include "perform/observe/telemetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/json.h"
#include "perform/kernels/messenger.h"
#include "support/test_plan.h"

namespace tombolo::observe {
namespace {

using link::LinkStatistics;
using ::testing::HasSubstr;

// 3 MB/s on the one connection that pulls; 5 bytes of a microbatch wait, 7 of gradients.
LinkStatistics busy_link() {
  LinkStatistics link{.peer = 1, .tuned = true, .reason = "it \"won\""};
  link.connections = {{.connection = 0,
                       .congestion_control = "bbr",
                       .acknowledged_bytes = 1000,
                       .retransmits = 2,
                       .goodput = BytesPerSecond{3e6},
                       .round_trip = 60_ms},
                      {.connection = 1, .pulls = false, .congestion_control = "cubic"}};
  link.queued_bytes = {{kernels::urgency_of({4, 2}), 5},
                       {kernels::urgency_of({4, kernels::kReplicaTensor}), 7}};
  return link;
}

// Every line is HELP, TYPE or a sample of the metric that was introduced last; HELP and TYPE come
// once; counters end in _total; nothing else does.
void expect_prometheus(const std::string& text) {
  static const std::regex help("# HELP (tombolo_[a-z_]+) .+"),
      type("# TYPE (tombolo_[a-z_]+) (counter|gauge)"),
      sample(
          R"re((tombolo_[a-z_]+)(\{[a-z_]+="([^"\\]|\\["\\n])*"(,[a-z_]+="([^"\\]|\\["\\n])*")*\})? -?[0-9].*)re");
  std::istringstream lines(text);
  std::string line, current;
  std::set<std::string> introduced, series;
  std::smatch match;
  while (std::getline(lines, line)) {
    if (std::regex_match(line, match, help)) {
      current = match[1];
      EXPECT_TRUE(introduced.insert(current).second) << line;
    } else if (std::regex_match(line, match, type)) {
      EXPECT_EQ(match[1], current) << line;
      EXPECT_EQ(match[2] == "counter", current.ends_with("_total")) << line;
    } else {
      ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
      EXPECT_EQ(match[1], current) << line;
      EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
    }
  }
  EXPECT_EQ(text.back(), '\n');
}

TEST(Telemetry, SpeaksPrometheus) {
  const plan::Plan plan = make_test_plan({});
  ManualClock clock;
  Telemetry telemetry(plan, clock);
  expect_prometheus(telemetry.prometheus());
  telemetry.heard(0);
  clock.advance({2'000'000'000});
  telemetry.add(0, link_reports({busy_link()}, 99));
  telemetry.add(0, stage::IterationReport{.iteration = 3, .late_s = 0.25});
  telemetry.add(Progress{.step = 3, .steps = 9, .loss = 2.5, .iteration = 1.5_s});
  const std::string text = telemetry.prometheus();
  expect_prometheus(text);
  for (const char* line :
       {"tombolo_steps_done 3\n", "tombolo_loss_nats_per_token 2.5\n",
        "tombolo_iteration_seconds 1.5\n", "tombolo_run_seconds 2\n",
        "tombolo_link_goodput_bytes_per_second{rank=\"0\",peer=\"1\"} 3000000\n",
        "tombolo_link_connections_pulling{rank=\"0\",peer=\"1\"} 1\n",
        "tombolo_link_queue_bytes{rank=\"0\",peer=\"1\",urgency=\"pipeline\"} 5\n",
        "tombolo_link_queue_bytes{rank=\"0\",peer=\"1\",urgency=\"gradients\"} 7\n",
        "tombolo_connection_retransmits_total{rank=\"0\",peer=\"1\",connection=\"0\"} 2\n",
        "tombolo_connection_round_trip_seconds{rank=\"0\",peer=\"1\",connection=\"0\"} 0.06\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text,
              ::testing::ContainsRegex("tombolo_schedule_lateness_seconds.rank=\"0\".* 0.25"));
}

TEST(Telemetry, LeavesTheLauncherAndDeadLinksOut) {
  LinkStatistics launcher = busy_link(), dead = busy_link();
  launcher.peer = 99;
  dead.up = false;
  EXPECT_EQ(link_reports({launcher, dead, busy_link()}, 99).size(), 1u);
}

TEST(Telemetry, TellsTheStatusOfEveryRankAndLink) {
  const plan::Plan plan = make_test_plan({});
  ManualClock clock;
  Telemetry telemetry(plan, clock);
  telemetry.heard(0);
  clock.advance({3'000'000'000});
  telemetry.add(0, link_reports({busy_link()}, 99));
  telemetry.add(RunPhase::kPreparing);
  const Value status = telemetry.status();
  EXPECT_EQ(*status.find("phase"), Value("preparing"));
  const Value& rank = status.find("ranks")->get<Value::Array>()->at(0);
  EXPECT_EQ(*rank.find("heard_s_ago"), Value(3.0));
  EXPECT_TRUE(rank.find("hang_s")->is_null());
  EXPECT_EQ(*rank.find("trouble"), Value(""));
  EXPECT_TRUE(status.find("loss")->is_null());
  const Value& link = status.find("links")->get<Value::Array>()->at(0);
  EXPECT_EQ(*link.find("pulling"), Value(1));
  EXPECT_EQ(*link.find("congestion_control"), Value("bbr"));
  EXPECT_EQ(*link.find("reason"), Value("it \"won\""));
  EXPECT_EQ(*link.find("queue_bytes")->find("gradients"), Value(7));
}

TEST(Telemetry, TellsTheDensityWhereItMayChange) {
  plan::Plan plan = make_test_plan({.replicas = 2, .apart = true});
  ManualClock clock;
  EXPECT_EQ(Telemetry(plan, clock).status().find("density"), nullptr);
  plan.exchange = plan::Exchange{.mode = plan::ExchangeMode::kSparse, .density = 0.01};
  plan.exchange->density_range = {0.002, 0.05};
  Telemetry telemetry(plan, clock);
  EXPECT_THAT(telemetry.prometheus(), HasSubstr("tombolo_exchange_density 0.01\n"));
  EXPECT_THAT(telemetry.prometheus(), HasSubstr("tombolo_exchange_density_changes_total 0\n"));
  telemetry.add(tune::DensityDecision{.first_iteration = 12,
                                      .before = 0.01,
                                      .density = 0.005,
                                      .rate = BytesPerSecond{1e6},
                                      .reason = "the line carries 8 Mbps"});
  const std::string text = telemetry.prometheus();
  expect_prometheus(text);
  EXPECT_THAT(text, HasSubstr("tombolo_exchange_density 0.005\n"));
  EXPECT_THAT(text, HasSubstr("tombolo_exchange_density_changes_total 1\n"));
  EXPECT_THAT(text, HasSubstr("tombolo_exchange_line_bytes_per_second 1000000\n"));
  const Value status = telemetry.status();
  const Value& density = *status.find("density");
  EXPECT_EQ(*density.find("now"), Value(0.005));
  EXPECT_EQ(*density.find("first_iteration"), Value(12));
  EXPECT_EQ(*density.find("reason"), Value("the line carries 8 Mbps"));
}

// Decided three iterations ahead, it is shown as what comes; the next epoch begins with it, whatever its number.
TEST(Telemetry, ADivisionOfTheBatchIsInUseFromItsFirstIterationOn) {
  plan::Plan plan = make_test_plan({.stages = 1, .microbatches = 6, .replicas = 2});
  plan.parallelism.adaptive_batch = true;
  ManualClock clock;
  Telemetry telemetry(plan, clock);
  const auto list = [](std::initializer_list<int64_t> of) {
    return Value(Value::Array(of.begin(), of.end()));
  };
  const auto shown = [&](const char* key) {
    return *telemetry.status().find("microbatches")->find(key);
  };
  const auto of_pipeline_1 = [](const char* number) {
    return HasSubstr(fmt::format("tombolo_replica_microbatches{{replica=\"1\"}} {}\n", number));
  };
  telemetry.add(RunPhase::kGathering);
  const tune::BatchDecision change{
      .first_iteration = 12, .before = {6, 6}, .microbatches = {8, 4}, .reason = "it is slow"};
  telemetry.add(change);
  telemetry.add(0, stage::IterationReport{.iteration = 10});
  EXPECT_EQ(shown("now"), list({6, 6}));
  EXPECT_EQ(shown("next"), list({8, 4}));
  EXPECT_EQ(shown("first_iteration"), Value(12));
  EXPECT_THAT(telemetry.prometheus(), of_pipeline_1("6"));
  telemetry.add(1, stage::IterationReport{.iteration = 11});  // and begins the 12th
  EXPECT_EQ(shown("now"), list({8, 4}));
  EXPECT_TRUE(shown("next").is_null());
  EXPECT_EQ(shown("before"), list({6, 6}));
  EXPECT_THAT(telemetry.prometheus(), of_pipeline_1("4"));
  Telemetry next(plan, clock);  // of the launcher that continues from step 7
  next.add(change);
  next.add(RunPhase::kGathering);
  EXPECT_EQ(*next.status().find("microbatches")->find("now"), list({8, 4}));
}

TEST(Telemetry, NamesARankThatHasHung) {
  const plan::Plan plan = make_test_plan({});
  ManualClock clock;
  Telemetry telemetry(plan, clock);
  telemetry.add(1, Hang{.since = clock.now(), .usual = Seconds{2.1}});
  clock.advance({41'000'000'000});
  const auto rank = [&] { return telemetry.status().find("ranks")->get<Value::Array>()->at(1); };
  EXPECT_EQ(*rank().find("hang_s"), Value(41.0));
  EXPECT_EQ(*rank().find("trouble"),
            Value("rank 1 (paris) has made no progress for 41 s (its usual iteration takes 2.1 s); "
                  "its heartbeats continue"));
  EXPECT_THAT(telemetry.prometheus(),
              HasSubstr("tombolo_rank_hang_seconds{rank=\"1\",datacenter=\"paris\"} 41\n"));
  telemetry.add(1, std::optional<Hang>());
  EXPECT_EQ(*rank().find("trouble"), Value(""));
}

TEST(Telemetry, SaysUntilWhenCertificatesAreValid) {
  const plan::Plan plan = make_test_plan({});
  ManualClock clock;
  Telemetry telemetry(plan, clock);
  EXPECT_THAT(telemetry.prometheus(), ::testing::Not(HasSubstr("certificate")));
  const trust::WallTime now = trust::wall_time();
  telemetry.add(1, trust::CertificateFacts{"paris", now, now - std::chrono::hours(1)});
  expect_prometheus(telemetry.prometheus());
  EXPECT_THAT(telemetry.prometheus(),
              HasSubstr("tombolo_certificate_expires_seconds{rank=\"1\",datacenter=\"paris\","
                        "host=\"paris\"} -36"));
}

}  // namespace
}  // namespace tombolo::observe
