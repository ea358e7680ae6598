#include "spec/plan/exchange_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/plan/job.h"
#include "spec/plan/plan_file.h"

namespace tombolo::plan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string two_labs(const std::string& more) {
  return R"(
    [model]
    layers = 2
    hidden = 64
    heads = 8
    vocabulary = 256
    sequence = 32
    [[cluster.datacenter]]
    name = "lab"
    device = "h100-80g"
    [[cluster.datacenter]]
    name = "cloud"
    device = "h100-80g"
    [[cluster.wan]]
    between = ["lab", "cloud"]
    one_way_latency = "10 ms"
    node_pair_limit = "1 Gbps"
    [training]
    global_batch = 4
    [parallelism]
    pipeline = 1
    data = 2
    datacenter_per_replica = ["lab", "cloud"]
  )" + more;
}

Plan with_exchange(const std::string& more) {
  const auto plan = parse_job(two_labs(more), "job.toml").and_then(lay_out);
  CHECK(plan, "{}", plan.error().text());
  return *plan;
}

TEST(Exchange, OverlapsUnlessItIsToldNotTo) {
  EXPECT_TRUE(with_exchange("").exchange_overlaps());
  EXPECT_TRUE(with_exchange("[exchange]\nmode = \"dense\"").exchange_overlaps());
  const Plan waits = with_exchange("[exchange]\noverlap = false");
  EXPECT_TRUE(waits.exchanges_gradients());
  EXPECT_FALSE(waits.exchange_overlaps());
}

TEST(Exchange, IsASumOfFixedDurationWhereAJobSaysHowLongItTakes) {
  const std::string times = "[stage_times]\nforward = \"1 ms\"\nbackward = \"2 ms\"\n";
  EXPECT_TRUE(with_exchange(times).exchanges_gradients());
  EXPECT_FALSE(with_exchange(times + "reduce = \"3 ms\"").exchanges_gradients());
}

TEST(Exchange, RefusesModesThatAreNotThereYet) {
  const auto job = parse_job(two_labs("[exchange]\nmode = \"sparse\""), "job.toml");
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().text(), HasSubstr("exchange.mode = \"sparse\""));
  EXPECT_THAT(job.error().text(), HasSubstr("dense"));
}

TEST(Exchange, IsSaidByJobsAndPlansThatWereToldOfIt) {
  EXPECT_THAT(to_json_text(with_exchange("")), Not(HasSubstr("exchange")));
  const Plan told = with_exchange("[exchange]\noverlap = false");
  EXPECT_EQ(parse_plan(to_json_text(told), "plan.json")->exchange, told.exchange);
  const Job job = *parse_job(two_labs("[exchange]\noverlap = false"), "job.toml");
  EXPECT_EQ(parse_job(to_toml_text(job, "again.toml", ""), "again.toml")->exchange, job.exchange);
  // A Plan as a job says it, too.
  EXPECT_EQ(parse_job(to_json_text(told), "plan.json")->exchange, told.exchange);
}

}  // namespace
}  // namespace tombolo::plan
