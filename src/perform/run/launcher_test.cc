// What can be predicted but not performed is refused by name, before any worker starts; and what the next
// launcher says of a run whose steps are all done.
#include "perform/run/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perform/join/membership.h"
#include "spec/plan/plan_file.h"
#include "spec/schedule/schedule.h"
#include "spec/trace/trace_file.h"
#include "support/folder_test.h"
#include "support/test_plan.h"

namespace tombolo::run {
namespace {

using ::testing::HasSubstr;

std::string complaint(const plan::Plan& plan) {
  const Status status = check_performable(plan);
  return status ? "performable" : status.error().text();
}

TEST(CheckPerformable, TakesEverySchedule) {
  for (const std::string& name : layout::schedule_names()) {
    const int chunks =
        layout::mapping_of(*layout::find_schedule(name)) == layout::StageMapping::kLine ? 1 : 2;
    const plan::Plan plan =
        make_test_plan({.microbatches = 4, .schedule = name, .virtual_stages = chunks});
    EXPECT_EQ(complaint(plan), "performable") << name;
  }
}

TEST(CheckPerformable, RefusesMoreStagesThanMessagesCanBeToldApartFor) {
  EXPECT_THAT(complaint(make_test_plan({.schedule = "interleaved", .virtual_stages = 40'000})),
              HasSubstr("80000 stages: messages can be told apart for 65536 of them"));
}

plan::Plan computed(plan::Plan plan) {
  for (cluster::Datacenter& each : plan.cluster.datacenters)
    each.device.kind = cluster::DeviceKind::kCpu;
  return plan;
}

TEST(CheckPerformable, RefusesExpertsWhoseReplicasCannotMeet) {
  plan::Plan plan = computed(make_test_plan({.replicas = 2}));
  plan.parallelism.expert = 2;
  plan.model.experts = model::Experts{.count = 2, .per_token = 2, .ffn = 8};
  EXPECT_THAT(complaint(plan), HasSubstr("there is no model to compute"))
      << "and nothing of experts";
  const int64_t all = plan.training.global_batch / plan.training.micro_batch;
  plan.parallelism.microbatches_per_replica = {all - 1, 1};
  EXPECT_THAT(complaint(plan), HasSubstr("parallelism.expert = 2: replicas meet"));
  EXPECT_THAT(complaint(plan), HasSubstr("expert = 1, or leaving microbatches_per_replica out"));
}

TEST(CheckPerformable, RefusesPairsOfPassesThatDropParameters) {
  plan::Plan plan = computed(make_test_plan({.replicas = 2}));
  plan.parallelism.zero = 3;
  plan.pairs.push_back({.forward = 0, .backward = 0, .forward_end = 2_ms, .backward_end = 2_ms});
  EXPECT_THAT(complaint(plan), HasSubstr("parallelism.zero = 3: a pass drops the parameters"));
}

TEST(CheckPerformable, RefusesZeroOfReplicasWhosePassesDiffer) {
  plan::Plan plan = computed(make_test_plan({.replicas = 2}));
  const int64_t all = plan.training.global_batch / plan.training.micro_batch;
  for (const int64_t zero : {2, 3}) {
    plan.parallelism.zero = zero;
    plan.parallelism.microbatches_per_replica = {};
    EXPECT_THAT(complaint(plan), HasSubstr("there is no model to compute"))
        << "and nothing of ZeRO";
    plan.parallelism.microbatches_per_replica = {all - 1, 1};
    EXPECT_THAT(complaint(plan),
                HasSubstr(fmt::format("parallelism.zero = {}: replicas meet", zero)));
    EXPECT_THAT(complaint(plan), HasSubstr("microbatches_per_replica"));
  }
}

TEST(CheckPerformable, TakesEveryLayoutOnEmulatedDevices) {
  for (const int64_t zero : {1, 2, 3}) {
    plan::Plan plan = make_test_plan({.replicas = 2});
    plan.parallelism.zero = zero;
    EXPECT_EQ(complaint(plan), "performable");
  }
  plan::Plan plan = make_test_plan({});
  plan.parallelism.tensor = 2;
  plan.parallelism.context = 2;
  for (layout::Placement& rank : plan.ranks) rank.shards = 4;
  for (cluster::Datacenter& each : plan.cluster.datacenters) each.devices_per_node = 4;
  EXPECT_EQ(complaint(plan), "performable");
}

TEST(CheckPerformable, RefusesRanksThatComputeBesideEmulatedOnes) {
  plan::Plan plan = make_test_plan({});
  plan.cluster.datacenters[1].device.kind = cluster::DeviceKind::kCpu;
  EXPECT_THAT(complaint(plan), HasSubstr("rank 1 sits on"));
  EXPECT_THAT(complaint(plan), HasSubstr("rank 0 on \"emulated:a100-80g\" and only waits"));
  EXPECT_THAT(complaint(plan), HasSubstr("device = \"cpu\" in all datacenters"));
}

TEST(CheckPerformable, TakesCellsThatShareTheWanInTime) {
  for (const char* schedule : {"1f1b", "atlas"}) {
    EXPECT_EQ(
        complaint(make_test_plan({.replicas = 2, .schedule = schedule, .sharing = "temporal"})),
        "performable");
  }
}

TEST(CheckPerformable, TakesSchedulesThatAPlanCarriesIfTheyAreSound) {
  plan::Plan plan = make_test_plan({});
  plan.given =
      schedule::to_given(*schedule::build(layout::ScheduleKind::kGpipe, schedule::shape_of(plan)));
  EXPECT_EQ(complaint(plan), "performable");
  plan.given->ranks.pop_back();
  EXPECT_THAT(complaint(plan), HasSubstr("given.ranks orders 1 ranks of 2"));
}

TEST(LauncherDeathTest, TheCommandLineHasBoundedItsNumbers) {
  const plan::Plan plan = make_test_plan({});
  ManualClock clock;
  EXPECT_DEATH(static_cast<void>(launch(plan, {.restarts = -1}, clock)), "-1 restarts");
  EXPECT_DEATH(static_cast<void>(launch(plan, {.end_max = {}}, clock)), "0 ns for workers to end");
}

class LauncherFolder : public FolderTest {
 protected:
  // The launcher before was killed after the last step, and left a Trace of the Plan with this digest. The Plan
  // takes no checkpoints, from whose step steps could be counted.
  Result<observe::RunSummary> launch_again(const plan::Plan& plan, const std::string& digest);

  std::string notes_;
};

Result<observe::RunSummary> LauncherFolder::launch_again(const plan::Plan& plan,
                                                         const std::string& digest) {
  SystemClock clock;
  {
    const auto killed = join::Membership::open(plan, {.output = folder_}, clock);
    if (!killed) return fail(killed.error());
    (*killed)->begin();
    for (const int32_t rank : {0, 1}) (*killed)->came(rank);
    (*killed)->done();
    TRY((*killed)->status());
  }
  trace::Trace trace;
  trace.header.plan_digest = digest;
  TRY(trace::write_trace(folder_ + "/trace.jsonl", trace));
  return launch(plan,
                {.output = folder_,
                 .restarts = 1,
                 .worker_program = "/bin/true",
                 .on_note = [&](const std::string& note) { notes_ += note; }},
                clock);
}

TEST_F(LauncherFolder, CountsAllStepsOfARunThatWasDoneBefore) {
  const plan::Plan plan = make_test_plan({.steps = 3});
  const auto summary = launch_again(plan, plan::plan_digest(plan));
  ASSERT_TRUE(summary) << summary.error().text();
  EXPECT_EQ(notes_, "the launcher of this run was killed; all steps are done");
  EXPECT_EQ(summary->steps, 3);
}

TEST_F(LauncherFolder, BelievesNoTraceOfAnotherPlan) {
  const plan::Plan plan = make_test_plan({.steps = 3});
  const auto summary = launch_again(plan, plan::plan_digest(make_test_plan({.steps = 4})));
  ASSERT_FALSE(summary);
  EXPECT_THAT(
      summary.error().text(),
      HasSubstr(folder_ + "/trace.jsonl: this Trace is of another Plan\n  try removing it and"));
}

TEST(LeaseTerms, LastAsLongAsTheGraceUnlessAskedOtherwise) {
  const auto plain = lease_terms(std::nullopt, Seconds{60});
  ASSERT_TRUE(plain) << plain.error().text();
  EXPECT_EQ(plain->floor, plain->ceiling);
  EXPECT_EQ(plain->floor, control::LeaseTerms{}.floor) << "the default of both";
  const auto quick = lease_terms(Seconds{3}, Seconds{15});
  ASSERT_TRUE(quick) << quick.error().text();
  EXPECT_EQ(quick->floor, SimDuration{3'000'000'000});
  EXPECT_EQ(quick->beat, SimDuration{250'000'000}) << "a twelfth";
  EXPECT_EQ(quick->ceiling, SimDuration{15'000'000'000});
  for (const auto& [lease, grace] :
       {std::pair(20.0, 15.0), std::pair(0.5, 15.0), std::pair(3.0, 0.5), std::pair(3.0, 3601.0)}) {
    EXPECT_FALSE(lease_terms(Seconds{lease}, Seconds{grace})) << lease << " of " << grace;
  }
}

}  // namespace
}  // namespace tombolo::run
