#include "decide/across/exchange_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "base/file.h"
#include "decide/across/ways.h"
#include "support/folder_test.h"

namespace tombolo::across {
namespace {

using ::testing::HasSubstr;

struct Line {
  const char* rate;
  const char* latency;
};

std::string two(const Line& line, const std::string& more = "") {
  std::string text = R"([model]
layers = 4
hidden = 1024
heads = 16
sequence = 1024
vocabulary = 32000
[optimizer]
beta1 = 0
[training]
global_batch = 16
micro_batch = 1
)";
  for (const char* name : {"ashburn", "dublin"}) {
    text += fmt::format(
        "[[cluster.datacenter]]\nname = \"{}\"\ndevice = \"a100-80g\"\ndevices_per_node = 2\n"
        "price = \"2 USD/device-hour\"\n"
        "scale_up = {{ domain = 2, bandwidth = \"300 GBps\", latency = \"1 us\" }}\n"
        "scale_out = {{ bandwidth = \"200 Gbps\", latency = \"5 us\" }}\n",
        name);
  }
  return text +
         fmt::format(
             "[[cluster.wan]]\nbetween = [\"ashburn\", \"dublin\"]\nprice = \"0.05 USD/GB\"\n"
             "one_way_latency = \"{}\"\nnode_pair_limit = \"{}\"\n",
             line.latency, line.rate) +
         more;
}

constexpr const char* kApart =
    "[parallelism]\ntensor = 2\npipeline = 1\ndata = 2\ndatacenter_per_replica = [\"ashburn\", "
    "\"dublin\"]\n";

Result<plan::Job> chosen(const std::string& text) {
  return with_exchange_chosen(TRY(plan::parse_job(text, "job.toml")), nullptr, 1);
}

constexpr Line kLines[] = {
    {"10 Mbps", "100 ms"}, {"100 Mbps", "40 ms"}, {"1 Gbps", "60 ms"}, {"10 Gbps", "2 ms"}};

// By simulating every setting here, and taking the best.
TEST(ExchangeChoice, IsTheFastestToTheSameLoss) {
  std::set<std::string> modes;
  for (const Line& line : kLines) {
    const auto job = chosen(two(line, std::string(kApart) + "[exchange]\nmode = \"auto\"\n"));
    ASSERT_TRUE(job) << job.error().text();
    double best = INFINITY, own = INFINITY;
    for (const plan::Exchange& exchange : exchange_grid({}, {})) {
      plan::Job each = *job;
      each.exchange = exchange;
      const auto way = way_of(WayKind::kHomes, exchange_text(exchange), each, {});
      ASSERT_TRUE(way) << exchange_text(exchange) << ": " << way.error().text();
      best = std::min(best, way->time_per_step().value);
      if (exchange == job->exchange) own = way->time_per_step().value;
    }
    EXPECT_LE(own, best * (1 + kTie)) << line.rate << ": " << exchange_text(*job->exchange);
    ASSERT_FALSE(job->notes.empty());
    EXPECT_THAT(job->notes.back(),
                HasSubstr("[exchange] mode = \"auto\" is " + exchange_text(*job->exchange)));
    modes.insert(exchange_text(*job->exchange));
  }
  EXPECT_GT(modes.size(), 1u);  // or nothing was chosen
}

TEST(ExchangeChoice, AgreesWithPlanAcross) {
  for (const Line& line : kLines) {
    const auto open = plan::parse_open_job(two(line), "job.toml");
    ASSERT_TRUE(open) << open.error().text();
    const auto found = ways_across(*open, {.layouts = 2, .break_even = false});
    ASSERT_TRUE(found) << found.error().text();
    const auto homes = std::find_if(found->ways.begin(), found->ways.end(),
                                    [](const Way& way) { return way.kind == WayKind::kHomes; });
    ASSERT_NE(homes, found->ways.end());
    plan::Job job = homes->job;
    job.exchange.emplace().mode_is_auto = true;
    const auto same = with_exchange_chosen(job, nullptr, 1);
    ASSERT_TRUE(same) << same.error().text();
    EXPECT_EQ(exchange_text(*same->exchange), exchange_text(*homes->job.exchange)) << line.rate;
  }
}

TEST(ExchangeChoice, ChangesNothingElse) {
  const std::string named = two(kLines[1], std::string(kApart) + "[exchange]\nmode = \"local\"\n");
  EXPECT_EQ(chosen(named)->exchange->mode, plan::ExchangeMode::kLocal);
  EXPECT_TRUE(chosen(named)->notes.empty());
  // Nothing crosses between datacenters.
  const auto alone = chosen(two(kLines[1],
                                "[parallelism]\ntensor = 2\npipeline = 1\ndata = 1\n"
                                "[exchange]\nmode = \"auto\"\n"));
  ASSERT_TRUE(alone) << alone.error().text();
  EXPECT_FALSE(alone->exchange->mode_is_auto);
}

// Of which no steps are known.
TEST(ExchangeChoice, TakesNoSparseUpdatesWithAFirstMoment) {
  std::string text = two(kLines[1], std::string(kApart) + "[exchange]\nmode = \"auto\"\n");
  text.replace(text.find("beta1 = 0"), 9, "beta1 = 0.9");
  const auto job = chosen(text);
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_NE(job->exchange->mode, plan::ExchangeMode::kSparse);
  EXPECT_THAT(job->notes.back(), HasSubstr("sparse blocks 1 % (needs [optimizer] beta1 = 0, or a"));
}

// A profile of the job's own optimizer: sparse updates are compared with a first moment, too, and win or lose by
// what was measured.
class ExchangeChoiceByProfile : public FolderTest {
 protected:
  Result<plan::Job> by(double samples_factor, const std::string& training) {
    const std::string profile = fmt::format(
        R"({{"bounds": {{"batch_min": 4, "batch_max": 64, "batch_step": 4{}}}, "probes": [)",
        training);
    std::string probes;
    for (const double density : {0.01, 0.1, 1.0}) {
      probes += fmt::format(R"({}{{"density": {}, "batch": 16, "samples_factor": {}}})",
                            probes.empty() ? "" : ", ", density, density == 1 ? 1 : samples_factor);
    }
    TRY(write_file(at("profile.json"), profile + probes + "]}"));
    std::string text = two(kLines[0], std::string(kApart) + "[exchange]\nmode = \"auto\"\n" +
                                          "convergence_profile = \"profile.json\"\n");
    text.replace(text.find("beta1 = 0"), 9, "beta1 = 0.9");
    return with_exchange_chosen(TRY(plan::parse_job(text, at("job.toml"))), nullptr, 1);
  }
};

TEST_F(ExchangeChoiceByProfile, ItsFactorsDecide) {
  const auto cheap = by(1, ""), dear = by(1000, "");
  ASSERT_TRUE(cheap) << cheap.error().text();
  ASSERT_TRUE(dear) << dear.error().text();
  EXPECT_THAT(cheap->notes.back(), HasSubstr("sparse blocks 1 %: "));
  // Which was not measured.
  EXPECT_THAT(cheap->notes.back(), HasSubstr("sparse chunks 1.56 % (needs [optimizer] beta1 = 0"));
  EXPECT_THAT(dear->notes.back(), HasSubstr(" x 10"));  // about a thousand, as it is interpolated
  EXPECT_NE(dear->exchange->mode, plan::ExchangeMode::kSparse);
  EXPECT_TRUE(cheap->exchange->convergence_profile.empty());
}

TEST_F(ExchangeChoiceByProfile, OfAnotherModelIsNoted) {
  const auto job = by(1, R"(, "training": {"parameters": 12, "sequence": 1024, "optimizer": "adamw",
                          "learning_rate": 0.5, "first_moment": 0.9})");
  ASSERT_TRUE(job) << job.error().text();
  ASSERT_GE(job->notes.size(), 2u);
  const std::string& note = job->notes[job->notes.size() - 2];
  EXPECT_THAT(note, HasSubstr("was measured with parameters 12, and the job has "));
  EXPECT_THAT(note, HasSubstr("learning_rate 0.5"));
  EXPECT_THAT(note, ::testing::Not(HasSubstr("sequence")));
}

TEST_F(ExchangeChoiceByProfile, MustBeThere) {
  const auto job = with_exchange_chosen(
      *plan::parse_job(
          two(kLines[0], std::string(kApart) + "[exchange]\nmode = \"auto\"\nconvergence_profile = "
                                               "\"none.json\"\n"),
          at("job.toml")),
      nullptr, 1);
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().text(), HasSubstr("job.toml: exchange.convergence_profile"));
  EXPECT_THAT(job.error().text(), HasSubstr("none.json"));
}

TEST(ExchangeChoice, TakesTheStepsOfTheJob) {
  const auto job =
      chosen(two(kLines[0], std::string(kApart) + "[exchange]\nmode = \"auto\"\nsteps = 50\n"));
  ASSERT_TRUE(job) << job.error().text();
  EXPECT_THAT(job->notes.back(), HasSubstr("local, 50 steps"));
  EXPECT_THAT(job->notes.back(), ::testing::Not(HasSubstr("30 steps")));
}

TEST(ExchangeChoice, RefusesWhatItChooses) {
  for (const char* key :
       {"density = 0.01", "overlap = false", "fragments = 4", "values = \"int8\"", "steps = 0"}) {
    const auto job =
        chosen(two(kLines[0], std::string(kApart) + "[exchange]\nmode = \"auto\"\n" + key + "\n"));
    ASSERT_FALSE(job) << key;
    EXPECT_EQ(job.error().code, ErrorCode::kUnusable) << key;
  }
  const auto unknown =
      chosen(two(kLines[0], std::string(kApart) + "[exchange]\nmode = \"fast\"\n"));
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().text(), HasSubstr("sparse-local, auto"));
}

}  // namespace
}  // namespace tombolo::across
