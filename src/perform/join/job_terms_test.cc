#include "perform/join/job_terms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/test_plan.h"

namespace tombolo::join {
namespace {

using ::testing::HasSubstr;

TEST(JobTerms, AreThoseOfOneJobOnEveryHost) {
  plan::Plan plan = make_test_plan({.stages = 2, .steps = 5});
  const std::string own = job_terms(plan);
  EXPECT_TRUE(check_job_terms(own, plan));
  plan.name = "another name";
  plan.run.threads = 3;
  plan.checkpoint = plan::Checkpoint{.directory = "elsewhere", .every = 2};
  plan.parallelism.microbatches_per_replica = {4};
  EXPECT_TRUE(check_job_terms(own, plan)) << "each host may have its own";
}

TEST(JobTerms, NameWhatDiffersAndBothValues) {
  plan::Plan plan = make_test_plan({.stages = 2, .steps = 5});
  plan.model = {.layers = 4, .hidden = 64, .heads = 4, .vocabulary = 256, .sequence = 64};
  const auto said = [&](auto change) {
    plan::Plan own = plan;
    change(own);
    const Status checked = check_job_terms(job_terms(own), plan);
    return checked ? std::string("the same") : checked.error().text();
  };
  EXPECT_THAT(said([](plan::Plan& own) { own.run.steps = 9; }),
              HasSubstr("run.steps = 9 in this rank's own job, and 5 in the launcher's"));
  EXPECT_THAT(said([](plan::Plan& own) { own.run.seed += 1; }), HasSubstr("run.seed = "));
  EXPECT_THAT(said([](plan::Plan& own) { own.model.layers += 1; }), HasSubstr("model.layers = "));
  EXPECT_THAT(said([](plan::Plan& own) { own.training.global_batch *= 2; }),
              HasSubstr("training.global_batch = "));
  EXPECT_THAT(said([](plan::Plan& own) {
                own.exchange = plan::Exchange{.mode = plan::ExchangeMode::kSparse};
              }),
              HasSubstr("and left out in the launcher's"));
}

}  // namespace
}  // namespace tombolo::join
