#include "spec/plan/exchange_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/plan/exchange_check.h"
#include "spec/plan/job.h"
#include "spec/plan/plan_file.h"

namespace tombolo::plan {
namespace {

using ::testing::ElementsAre;
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

std::string why_not(const std::string& more) {
  const auto plan = parse_job(two_labs(more), "job.toml").and_then(lay_out);
  return plan ? "" : plan.error().text();
}

TEST(Exchange, RefusesModesThatAreNotThereYet) {
  const std::string why = why_not("[exchange]\nmode = \"gossip\"");
  EXPECT_THAT(why, HasSubstr("exchange.mode = \"gossip\""));
  EXPECT_THAT(why, HasSubstr("dense"));
}

TEST(Exchange, LocalStepsHaveDefaultsOfTheirOwn) {
  const Exchange local = *with_exchange("[exchange]\nmode = \"local\"").exchange;
  EXPECT_EQ(local.steps_in_use(), 30);
  EXPECT_EQ(local.outer_momentum_in_use(), 0.9);
  EXPECT_EQ(local.delay_in_use(), 0);
  EXPECT_EQ(local.blend_in_use(), 0);
  EXPECT_FALSE(local.keeps_residuals());
  const Exchange streamed =
      *with_exchange("[exchange]\nmode = \"local\"\nsteps = 50\nfragments = 4").exchange;
  EXPECT_EQ(streamed.delay_in_use(), 12);
  EXPECT_EQ(streamed.blend_in_use(), 0.5);
  const Exchange sparse = *with_exchange("[exchange]\nmode = \"sparse-local\"").exchange;
  EXPECT_EQ(sparse.outer_momentum_in_use(), 0);
  EXPECT_EQ(sparse.decay_in_use(), 0.95);
  EXPECT_EQ(sparse.staleness_in_use(), 0);
  EXPECT_FALSE(sparse.selects_chunks());
  const Exchange chunks =
      *with_exchange("[exchange]\nmode = \"sparse-local\"\nselect = \"chunks\"").exchange;
  EXPECT_TRUE(chunks.selects_chunks());
  EXPECT_EQ(chunks.density_in_use(), 64.0 / 4096);
}

TEST(Exchange, SaysWhatDoesNotGoWithLocalSteps) {
  const std::string local = "[exchange]\nmode = \"local\"\n";
  const std::string sparse = "[exchange]\nmode = \"sparse-local\"\n";
  const std::pair<std::string, const char*> cases[] = {
      {"[exchange]\nsteps = 5", "exchange.steps = 5: needs mode = \"local\""},
      {local + "select = \"chunks\"", "needs mode = \"sparse\" or \"sparse-local\""},
      {"[exchange]\nmode = \"local\"\nevery = 5", "exchange.every = 5: is called steps"},
      {local + "density = 0.1", "needs mode = \"sparse\" or \"sparse-local\""},
      {local + "staleness = 0", "needs mode = \"sparse\""},
      {local + "steps = 0", "from 1 to"},
      {local + "steps = 4\nfragments = 5", "from 1 to steps = 4"},
      {local + "steps = 4\ndelay = 4", "from 0 to 3"},
      {local + "blend = 1.0", "below 1"},
      {local + "outer_rate = 0.0", "above 0"},
      {local + "outer_momentum = 1.0", "below 1"},
      {local + "values = \"2bit\"", "sparse-local"},
      {local + "decay = 0.9", "needs mode = \"sparse-local\""},
      {local + "overlap = false", "group by group"},
      {sparse + "values = \"fp32\"", "bf16"},
      {sparse + "outer_momentum = 0.5", "needs mode = \"local\""},
      {local + "[optimizer]\nclip_norm = 1.0", "clip_norm"},
  };
  for (const auto& [more, word] : cases) EXPECT_THAT(why_not(more), HasSubstr(word)) << more;
  EXPECT_EQ(why_not(local + "[optimizer]\nname = \"muon\""), "");
  EXPECT_EQ(why_not(sparse + "values = \"2bit\"\n[optimizer]\nname = \"sgd\""), "");
}

TEST(Exchange, SparseHasDefaultsOfItsOwn) {
  const Exchange sparse = *with_exchange("[exchange]\nmode = \"sparse\"").exchange;
  EXPECT_EQ(sparse.density_in_use(), 0.01);
  EXPECT_EQ(sparse.values_in_use(), SentValues::kBf16);
  EXPECT_EQ(sparse.staleness_in_use(), 1);
  EXPECT_FALSE(sparse.is_fixed());
  EXPECT_EQ(Exchange{}.staleness_in_use(), 0);
}

TEST(Exchange, OfADensityThatMayChangeTheFirstIsLeftToThePrediction) {
  const Exchange open =
      *with_exchange("[exchange]\nmode = \"sparse\"\ndensity = \"auto\"").exchange;
  EXPECT_TRUE(open.density_changes());
  EXPECT_FALSE(open.density);
  EXPECT_EQ(open.density_range, (std::vector<double>{0.002, 0.05}));
  EXPECT_EQ(open.density_in_use(), 0.01);
  const std::string narrow = "[exchange]\nmode = \"sparse\"\ndensity_range = [0.02, 0.04]\n";
  EXPECT_EQ(with_exchange(narrow).exchange->density_in_use(), 0.02);
  EXPECT_EQ(with_exchange(narrow + "density = 0.03").exchange->density_in_use(), 0.03);
  EXPECT_EQ(open.hides_exchange(4), 1);
  EXPECT_EQ(
      with_exchange("[exchange]\nmode = \"sparse\"\nstaleness = 0").exchange->hides_exchange(4),
      0.25);
  EXPECT_EQ(two_digits_down(0.0203), 0.02);
  EXPECT_EQ(two_digits_down(0.00999), 0.0099);
  EXPECT_EQ(two_digits_down(0.01), 0.01);
}

// Every line that is refused, and a word of why.
TEST(Exchange, SaysWhatDoesNotGoTogether) {
  const std::string sparse = "[exchange]\nmode = \"sparse\"\n";
  const std::pair<std::string, const char*> cases[] = {
      {"[exchange]\ndensity = 0.1", "exchange.density = 0.1: needs mode = \"sparse\""},
      {"[exchange]\nstaleness = 0", "needs mode = \"sparse\""},
      {sparse + "density = 0.0", "above 0"},
      {sparse + "density = 1.5", "at most 1"},
      {sparse + "staleness = 2", "0 or 1"},
      {sparse + "density = \"some\"", "must be a number or \"auto\""},
      {sparse + "density_range = [0.1]", "two numbers"},
      {sparse + "density_range = [0.1, 0.05]", "must ascend"},
      {sparse + "density_range = [0.1, 0.2]\ndensity = 0.05", "density_range, from 0.1 to 0.2"},
      {"[exchange]\nmode = \"sparse-local\"\ndensity = \"auto\"", "sparse-local"},
      {"[exchange]\nmode = \"local\"\ndensity = \"auto\"", "needs mode = \"sparse\""},
      {"[exchange]\ndensity = \"auto\"", "needs mode = \"sparse\""},
      {sparse + "staleness = 0\nfreshness = \"fixed\"", "needs staleness = 1"},
      {sparse + "overlap = false", "group by group"},
      {sparse + "values = \"fp8\"", "bf16"},
      {sparse + "convergence_profile = \"p.json\"",
       "convergence_profile = \"p.json\": needs mode = \"auto\""},
      {sparse + "select = \"top-k\"\nvalues = \"int8\"",
       "must be left out with select = \"top-k\""},
      {sparse + "select = \"top-k\"\nvalues = \"fp32\"",
       "must be left out with select = \"top-k\""},
      {sparse + "optimizer_visits = \"all\"\n[optimizer]\nclip_norm = 1.0", "clip_norm"},
      {"[exchange]\nmode = \"sparse-local\"\noptimizer_visits = \"all\"",
       "needs mode = \"sparse\""},
      {sparse + "[optimizer]\nclip_norm = 1.0", "clip_norm"},
      {sparse + "[optimizer]\nname = \"muon\"", "muon"},
      {sparse + "[optimizer]\nname = \"sgd\"", "weight_decay"},
  };
  for (const auto& [more, word] : cases) EXPECT_THAT(why_not(more), HasSubstr(word)) << more;
  EXPECT_EQ(why_not(sparse + "[optimizer]\nname = \"sgd\"\nweight_decay = 0.0"), "");
  const std::string dense_steps = sparse + "optimizer_visits = \"all\"\n[optimizer]\n";
  EXPECT_EQ(why_not(dense_steps + "name = \"sgd\""), "");
  EXPECT_EQ(why_not(dense_steps + "name = \"muon\""), "");
}

TEST(Exchange, OfTheLargestNumbersOfAllTheyTravelAsTheyAre) {
  const Exchange largest =
      *with_exchange("[exchange]\nmode = \"sparse\"\nselect = \"top-k\"").exchange;
  EXPECT_EQ(largest.density_in_use(), 0.01);
  EXPECT_EQ(largest.values_in_use(), SentValues::kFp32);
}

TEST(Exchange, NotesWhatHasNoEffectAndWhichDensityCounts) {
  const std::string sparse = "[exchange]\nmode = \"sparse\"\n";
  EXPECT_EQ(notes_on_exchange(with_exchange("")), std::vector<std::string>{});
  EXPECT_EQ(notes_on_exchange(with_exchange(sparse)), std::vector<std::string>{});
  const auto notes = notes_on_density(with_exchange(sparse + "density_range = [0.02, 0.04]\n"));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("a density of 0.02, that of the first iteration"));
  const std::string first_come = "[exchange]\norder = \"first-come\"\n";
  const auto one_group = notes_on_exchange(with_exchange(first_come));
  ASSERT_EQ(one_group.size(), 1u);
  EXPECT_THAT(one_group[0], HasSubstr("has no effect: each stage has one group"));
  Plan many = with_exchange(first_come);
  many.model.hidden = 1024;
  many.stages[0].gradients = 2_GB;
  EXPECT_EQ(notes_on_exchange(many), std::vector<std::string>{});
  many.exchange->overlap = false;
  EXPECT_THAT(notes_on_exchange(many), ElementsAre(HasSubstr("changes little: updates wait for")));
  Plan together = with_exchange(sparse);
  for (layout::Placement& rank : together.ranks) rank.datacenter = together.ranks[0].datacenter;
  EXPECT_EQ(notes_on_exchange(together), std::vector<std::string>{kExchangeHasNoEffect});
}

TEST(Exchange, IsSaidByJobsAndPlansThatWereToldOfIt) {
  EXPECT_THAT(to_json_text(with_exchange("")), Not(HasSubstr("exchange")));
  const Plan told = with_exchange("[exchange]\noverlap = false");
  const Plan sparse = with_exchange(
      "[exchange]\nmode = \"sparse\"\ndensity = 0.05\nvalues = \"2bit\"\nfreshness = \"fixed\"");
  EXPECT_EQ(parse_plan(to_json_text(sparse), "plan.json")->exchange, sparse.exchange);
  EXPECT_EQ(parse_plan(to_json_text(told), "plan.json")->exchange, told.exchange);
  const Job job = *parse_job(two_labs("[exchange]\noverlap = false"), "job.toml");
  EXPECT_EQ(parse_job(to_toml_text(job, "again.toml", ""), "again.toml")->exchange, job.exchange);
  const Plan open = with_exchange("[exchange]\nmode = \"sparse\"\ndensity = \"auto\"");
  EXPECT_EQ(parse_plan(to_json_text(open), "plan.json")->exchange, open.exchange);
  // A Plan as a job says it, too.
  EXPECT_EQ(parse_job(to_json_text(told), "plan.json")->exchange, told.exchange);
}

}  // namespace
}  // namespace tombolo::plan
