#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/json.h"
#include "support/folder_test.h"
#include "support/job_texts.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::predict_commands {
namespace {

using testing::HasSubstr;

std::string answer(const FabricOptions& options) {
  std::ostringstream out;
  const Status status = fabric(options, out);
  EXPECT_TRUE(status) << status.error().text();
  return out.str();
}

FabricOptions sized(int64_t gpus, int64_t radix, int64_t domain) {
  FabricOptions options;
  options.gpus = gpus;
  options.radix = radix;
  options.domain = domain;
  return options;
}

TEST(FabricCommand, answers_programs) {
  FabricOptions options = sized(32768, 64, 256);
  options.json = true;
  options.message = "1GB";
  options.failures = true;
  const Value json = *parse_json(answer(options), "stdout");
  EXPECT_EQ(*json.find("clos")->find("switches")->get<int64_t>(), 2560);
  EXPECT_EQ(*json.find("rail_optimized")->find("transceivers")->get<int64_t>(), 196608);
  EXPECT_EQ(*json.find("rail_only")->find("switches")->get<int64_t>(), 1536);
  EXPECT_EQ(*json.find("reduction")->get<double>(), 0.375);
  EXPECT_EQ(*json.find("reduction_percent")->get<int64_t>(), 37);
  EXPECT_EQ(json.find("collectives")->find("laws")->get<Value::Array>()->size(), 7u);
  EXPECT_GT(json.find("failures")->get<Value::Array>()->size(), 10u);
}

TEST(FabricCommand, answers_people) {
  FabricOptions options = sized(32768, 128, 256);
  options.message = "1GB";
  options.failures = true;
  const std::string text = answer(options);
  EXPECT_THAT(text, HasSubstr("256 rails of 128 GPUs"));
  EXPECT_THAT(text, HasSubstr("75.0 % less"));
  EXPECT_THAT(text, HasSubstr("all-to-all-rail-only"));
  EXPECT_THAT(text, HasSubstr("rail-switch, rail-only"));
}

TEST(FabricCommand, says_what_happens_to_sizes_that_do_not_divide) {
  EXPECT_THAT(answer(sized(1000, 64, 256)), HasSubstr("the last domain has 232 GPUs"));
  EXPECT_THAT(answer(sized(100, 64, 256)), HasSubstr("share one domain"));
  EXPECT_THAT(answer(sized(24576, 128, 256)), HasSubstr("cannot be split"));
}

TEST(FabricCommand, takes_prices_with_and_without_a_unit) {
  FabricOptions options = sized(64, 64, 8);
  options.json = true;
  options.switch_port_price = "100";
  options.transceiver_price = "10 USD";
  // One switch of 64 ports and 128 transceivers: 6,400 + 1,280.
  const Value json = *parse_json(answer(options), "stdout");
  EXPECT_EQ(*json.find("clos")->find("cost_usd")->get<double>(), 7680);
}

// 64 A100 of a published row in domains of 8, switches of 8 ports: a Clos of 64 ports has 3 tiers,
// 5 ports and 6 transceivers a GPU, 5 x 748 + 6 x 374 = 5,984 dollars; a rail of 8 is one switch,
// 748 + 2 x 374 = 1,496. In a year of 8,760 hours, in addition to 2 dollars an hour:
// (2 + 0.683105) / (2 + 0.170776) = 1.236012.
class FabricOfJob : public FolderTest {
 protected:
  FabricOptions options() const {
    FabricOptions o;
    o.job = path_;
    o.radix = 8;
    o.years = 1;
    o.json = true;
    return o;
  }
  FabricOfJob() { std::ofstream(path_) << test::kGptOn64; }

  const std::string path_ = at("job.toml");
};

TEST_F(FabricOfJob, prices_its_iterations_network_included) {
  FabricOptions o = options();
  o.law = "rail-only";
  const Value json = *parse_json(answer(o), "stdout");
  EXPECT_EQ(*json.find("gpus")->get<int64_t>(), 64);
  EXPECT_EQ(*json.find("domain")->get<int64_t>(), 8);
  const Value& job = *json.find("job");
  EXPECT_EQ(*job.find("clos")->find("network_usd_per_gpu")->get<double>(), 5984);
  EXPECT_EQ(*job.find("rail_only")->find("network_usd_per_gpu")->get<double>(), 1496);
  // Table 4 of the paper, on either fabric.
  EXPECT_NEAR(*job.find("clos")->find("iteration_s")->get<double>(), 11.89, 0.005);
  EXPECT_NEAR(*job.find("rail_only")->find("iteration_s")->get<double>(), 11.89, 0.005);
  EXPECT_NEAR(*job.find("gain")->get<double>(), 0.236012, 1e-6);
  o.json = false;
  EXPECT_THAT(answer(o), HasSubstr("rail-only: +23.60 % iterations per dollar"));
}

TEST_F(FabricOfJob, takes_a_measured_iteration_instead_of_a_law) {
  FabricOptions o = options();
  o.iteration = "13.75s";
  const Value json = *parse_json(answer(o), "stdout");
  EXPECT_EQ(*json.find("job")->find("clos")->find("iteration_s")->get<double>(), 13.75);
  EXPECT_EQ(*json.find("job")->find("iteration_source")->get<std::string>(), "given");
  o.law = "rail-only";
  std::ostringstream out;
  const Status both = fabric(o, out);
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().exit_code(), 2);
}

// Two jobs of 32 GPUs and one of 64 on a cluster of 64.
TEST_F(FabricOfJob, tiles_a_cluster_with_several_jobs) {
  const auto write = [&](const char* name, std::string text, const char* from, const char* to) {
    text.replace(text.find(from), std::string(from).size(), to);
    std::ofstream(at(name)) << text;
    return at(name);
  };
  const std::string half = write("half.toml", test::kGptOn64, "pipeline = 8", "pipeline = 4");
  FabricOptions o;
  o.jobs = {half, half};
  const std::string text = answer(o);
  EXPECT_THAT(text, HasSubstr("2 jobs on 8 rails of 8 domains, rail-only: 64 of 64 GPUs in use"));
  EXPECT_THAT(text, HasSubstr("  0-3 |AAAAAAAA|\n  4-7 |BBBBBBBB|\n"));
  EXPECT_THAT(text, HasSubstr("no tiling has more GPUs in use, nor loses less time"));

  o.jobs = {half, path_};
  o.json = true;
  std::ostringstream out;
  const Status status = fabric(o, out);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().exit_code(), 3);
  EXPECT_THAT(status.error().message, HasSubstr("1 of 2 jobs have no place"));
  const Value tiling = *parse_json(out.str(), "stdout")->find("tiling");
  EXPECT_EQ(*tiling.find("gpus_in_use")->get<int64_t>(), 64);
  const Value& left_out = (*tiling.find("jobs")->get<Value::Array>())[0];
  EXPECT_FALSE(*left_out.find("placed")->get<bool>());
  EXPECT_EQ(*left_out.find("why_not")->get<std::string>(), "takes 32 GPUs, and none is left over");

  o.iteration = "1s";
  EXPECT_FALSE(fabric(o, out));
}

TEST(FabricCommand, refuses_with_exit_code_two_and_what_to_try) {
  const auto refused = [](auto change) {
    FabricOptions options = sized(1024, 64, 8);
    change(options);
    std::ostringstream out;
    const Status status = fabric(options, out);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().exit_code(), 2);
    EXPECT_NE(status.error().hint, "") << status.error().text();
    EXPECT_EQ(out.str(), "");
  };
  refused([](FabricOptions& o) { o.gpus = 0; });
  refused([](FabricOptions& o) { o.radix = 63; });
  refused([](FabricOptions& o) { o.domain = -8; });
  refused([](FabricOptions& o) { o.switch_port_price = "-1"; });
  refused([](FabricOptions& o) { o.transceiver_price = "cheap"; });
  refused([](FabricOptions& o) { o.message = "1 Gb"; });
  refused([](FabricOptions& o) { o.message = "0 B"; });
  refused([](FabricOptions& o) { o.port_bandwidth = "400"; });
  refused([](FabricOptions& o) { o.server = 3; });
  refused([](FabricOptions& o) { o.law = "rail-only"; });
}

}  // namespace
}  // namespace tombolo::predict_commands
