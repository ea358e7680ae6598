// Pairs in jobs and Plans: who says how long they take, and what cannot be.
#include "spec/plan/pair_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spec/plan/job.h"
#include "spec/plan/plan_file.h"

namespace tombolo::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string job_text(const std::string& times, const std::string& schedule = "dualpipev",
                     int virtual_stages = 2) {
  return fmt::format(R"(
    [[cluster.datacenter]]
    name = "a"
    device = "emulated:a100-80g"
    devices_per_node = 2
    [training]
    global_batch = 4
    [parallelism]
    pipeline = 2
    schedule = "{}"
    virtual_stages = {}
    [stage_times]
    forward = ["1 ms", "2 ms", "1 ms", "1 ms"]
    backward = ["2 ms", "2 ms", "4 ms", "2 ms"]
    {}
)",
                     schedule, virtual_stages, times);
}

std::string complaint(const std::string& text) {
  const Result<Job> job = parse_job(text, "job.toml");
  if (!job) return job.error().text();
  const Result<Plan> plan = lay_out(*job);
  return plan ? "no complaint" : plan.error().text();
}

TEST(PairTimes, AreOfAForwardBesideTheOtherStageOfItsRank) {
  const Plan plan = *lay_out(*parse_job(
      job_text("pair = [\"3 ms\", \"5 ms\", \"3 ms\", \"3 ms\"]\npair_forward = \"2.5 ms\""),
      "job.toml"));
  EXPECT_THAT(plan.pairs, ElementsAre(PairCost{0, 3, 2.5_ms, 3_ms}, PairCost{1, 2, 2.5_ms, 5_ms},
                                      PairCost{2, 1, 2.5_ms, 3_ms}, PairCost{3, 0, 2.5_ms, 3_ms}));
  EXPECT_TRUE(validate(plan));
  // As a Plan's file, and as the job that a Plan says.
  EXPECT_EQ(parse_plan(to_json_text(plan), "plan.json")->pairs, plan.pairs);
  EXPECT_EQ(lay_out(*parse_job(to_json_text(plan), "plan.json"))->pairs, plan.pairs);
}

TEST(PairTimes, AreRefusedWhereNoRankHasTwoStagesToPair) {
  const auto with = [](const std::string& times) { return complaint(job_text(times)); };
  EXPECT_THAT(
      with("pair = \"3 ms\""),
      HasSubstr("stage_times.pair = \"3 ms\" of stage 1, whose forward ends after 3 ms: alone "
                "the forward takes 2 ms and the backward with it 4 ms"));
  EXPECT_THAT(with("pair = \"5 ms\"\npair_forward = \"6 ms\""),
              HasSubstr("between forward and pair"));
  EXPECT_THAT(with("pair_forward = \"5 ms\""), HasSubstr("pair is left out"));
  EXPECT_THAT(with("pair = [\"5 ms\", \"5 ms\"]"), HasSubstr("2 entries for 4 stages"));
  EXPECT_THAT(complaint(job_text("pair = \"5 ms\"", "interleaved")),
              HasSubstr("schedule = \"interleaved\" has no pairs"));
}

TEST(PairTimes, OfAPlanAreInOrderAndOfOneRank) {
  const Plan sound = *lay_out(*parse_job(job_text("pair = \"5 ms\""), "job.toml"));
  Plan plan = sound;
  std::swap(plan.pairs[0], plan.pairs[1]);
  EXPECT_THAT(validate(plan).error().text(), HasSubstr("or twice"));
  plan = sound;
  plan.pairs[0].backward = 2;
  EXPECT_THAT(validate(plan).error().text(),
              HasSubstr("pairs[0], of stages 0 and 2: they are not"));
  plan = sound;
  plan.pairs[2].backward_end = 1_ms;
  EXPECT_THAT(validate(plan).error().text(), HasSubstr("alone they take 1 ms and 2 ms"));
}

}  // namespace
}  // namespace tombolo::plan
