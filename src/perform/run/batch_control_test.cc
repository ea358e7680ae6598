#include "perform/run/batch_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "support/folder_test.h"
#include "support/test_plan.h"

namespace tombolo::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr SimDuration kOneMs{1'000'000};

plan::Plan adaptive_plan(int steps = 100) {
  plan::Plan plan = make_test_plan({.stages = 1, .microbatches = 6, .replicas = 2, .steps = steps});
  plan.parallelism.adaptive_batch = true;
  CHECK(plan::validate(plan), "{}", plan::validate(plan).error().text());
  return plan;
}

// Of both pipelines of one stage, the second one `slow` times as slow.
std::optional<join::BatchOrder> report_speeds(BatchControl& control, int64_t iteration,
                                              int64_t slow) {
  std::optional<join::BatchOrder> order;
  for (int32_t rank = 0; rank < 2; ++rank) {
    const SimDuration took = kOneMs * (rank == 0 ? 60 : 60 * slow);
    stage::IterationReport report{.iteration = iteration};
    report.batch = stage::BatchReport{.microbatches = 6, .computing = took, .passes = took};
    EXPECT_FALSE(order);
    order = control.add(rank, report);
  }
  return order;
}

join::BatchOrder ask(BatchControl& control, int64_t& iteration) {
  std::optional<join::BatchOrder> order;
  while (!order) order = report_speeds(control, iteration++, 2);
  return *order;
}

TEST(BatchControl, AnOrderHoldsWhenAllRanksAreInTime) {
  const plan::Plan plan = adaptive_plan();
  BatchControl control(plan, "", false);
  EXPECT_THAT(control.begin().parallelism.microbatches_per_replica, ElementsAre(6, 6));
  int64_t iteration = 1;
  const join::BatchOrder order = ask(control, iteration);
  EXPECT_THAT(order.microbatches, ElementsAre(8, 4));
  EXPECT_EQ(order.first_iteration, iteration - 1 + 3);
  EXPECT_FALSE(*control.add(0, join::BatchAnswer{order.order, true}));
  EXPECT_FALSE(*control.add(0, join::BatchAnswer{order.order, true})) << "said twice";
  EXPECT_FALSE(report_speeds(control, iteration++, 9)) << "one at a time";
  const auto decided = control.add(1, join::BatchAnswer{order.order, true});
  ASSERT_TRUE(decided && *decided);
  EXPECT_TRUE((*decided)->verdict.holds);
  ASSERT_TRUE((*decided)->decision);
  EXPECT_THAT(to_line(*(*decided)->decision), HasSubstr("microbatches 6,6 -> 8,4 from iteration"));
  EXPECT_THAT(control.begin().parallelism.microbatches_per_replica, ElementsAre(8, 4));
}

TEST(BatchControl, OneRankThatIsLateWithdrawsIt) {
  const plan::Plan plan = adaptive_plan();
  BatchControl control(plan, "", false);
  control.begin();
  int64_t iteration = 1;
  const join::BatchOrder order = ask(control, iteration);
  const auto decided = control.add(1, join::BatchAnswer{order.order, false});
  ASSERT_TRUE(decided && *decided);
  EXPECT_FALSE((*decided)->verdict.holds);
  EXPECT_FALSE((*decided)->decision);
  EXPECT_FALSE(*control.add(0, join::BatchAnswer{order.order, true})) << "decided already";
  EXPECT_TRUE(control.history().newest().empty());
  const join::BatchOrder again = ask(control, iteration);
  EXPECT_EQ(again.order, order.order + 1);
  EXPECT_EQ(again.first_iteration, iteration - 1 + 6) << "twice as far ahead";
  EXPECT_FALSE(*control.add(0, join::BatchAnswer{order.order, false})) << "of the order before";
  EXPECT_THAT(control.add(0, join::BatchAnswer{7, true}).error().text(), HasSubstr("not given"));
}

// It would be the same in the next window: this epoch asks no more.
TEST(BatchControl, ARankThatCannotUseADivisionLeavesTheOneInUse) {
  const plan::Plan plan = adaptive_plan();
  BatchControl control(plan, "", false);
  control.begin();
  int64_t iteration = 1;
  const join::BatchOrder order = ask(control, iteration);
  const auto decided = control.add(1, join::BatchAnswer{order.order, false, "no memory for 8"});
  ASSERT_TRUE(decided && *decided);
  EXPECT_FALSE((*decided)->verdict.holds);
  EXPECT_FALSE((*decided)->decision);
  EXPECT_THAT((*decided)->refused,
              HasSubstr("rank 1 (oregon) cannot use microbatches 8,4 from iteration"));
  EXPECT_THAT((*decided)->refused, HasSubstr("no memory for 8\n  training continues with 6,6"));
  EXPECT_FALSE(*control.add(0, join::BatchAnswer{order.order, true})) << "decided already";
  for (int more = 0; more < 20; ++more) EXPECT_FALSE(report_speeds(control, iteration++, 2));
  EXPECT_THAT(control.begin().parallelism.microbatches_per_replica, ElementsAre(6, 6));
  iteration = 1;
  EXPECT_EQ(ask(control, iteration).order, 1) << "in the next epoch";
}

// An epoch that ends takes what was asked with it.
TEST(BatchControl, AnotherEpochBeginsWithWhatHeld) {
  const plan::Plan plan = adaptive_plan();
  BatchControl control(plan, "", false);
  control.begin();
  int64_t iteration = 1;
  ask(control, iteration);
  EXPECT_THAT(control.begin().parallelism.microbatches_per_replica, ElementsAre(6, 6));
  EXPECT_FALSE(control.add(0, join::BatchAnswer{1, true})) << "nothing was asked in this epoch";
}

class BatchFile : public FolderTest {};

TEST_F(BatchFile, ALauncherThatContinuesBeginsWithWhatHeld) {
  const plan::Plan plan = adaptive_plan();
  const std::string file = folder_ + "/journal-batch.json";
  BatchControl control(plan, file, false);
  control.begin();
  int64_t iteration = 1;
  const join::BatchOrder order = ask(control, iteration);
  EXPECT_FALSE(std::filesystem::exists(file)) << "it does not hold yet";
  for (const int32_t rank : {0, 1})
    ASSERT_TRUE(control.add(rank, join::BatchAnswer{order.order, true}));
  BatchControl next(plan, file, true);
  EXPECT_THAT(next.begin().parallelism.microbatches_per_replica, ElementsAre(8, 4));
  ASSERT_EQ(next.history().newest().size(), 1u);
  EXPECT_EQ(to_line(next.history().newest()[0]), to_line(control.history().newest()[0]));
  // What says nothing of use stops no run: cut off, no JSON, another batch, another number of pipelines.
  for (const char* text :
       {"", "{\"before\": [6, 6]", "[]",
        R"({"first_iteration": 4, "before": [6, 6], "microbatches": [8, 5], "reason": ""})",
        R"({"first_iteration": 4, "before": [6, 6], "microbatches": [12], "reason": ""})",
        R"({"first_iteration": 4, "before": [6, 6], "microbatches": [12, 0], "reason": ""})"}) {
    ASSERT_TRUE(write_file(file, text));
    BatchControl damaged(plan, file, true);
    EXPECT_THAT(damaged.begin().parallelism.microbatches_per_replica, ElementsAre(6, 6)) << text;
    EXPECT_TRUE(damaged.history().newest().empty());
  }
  BatchControl fresh(plan, file, false);
  EXPECT_FALSE(std::filesystem::exists(file)) << "of a run that begins";
}

TEST(BatchControl, LeavesABatchThatAJobGivesAlone) {
  plan::Plan plan = adaptive_plan();
  plan.parallelism.adaptive_batch = false;
  BatchControl control(plan, "", false);
  EXPECT_FALSE(control.is_on());
  EXPECT_EQ(control.begin(), plan);
  EXPECT_FALSE(report_speeds(control, 1, 2));
}

}  // namespace
}  // namespace tombolo::run
