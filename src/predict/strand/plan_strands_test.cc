#include "predict/strand/plan_strands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::strand {
namespace {

plan::Job job_of(const std::string& model, const std::string& device, int64_t tensor) {
  plan::Job job;
  job.file = "job.toml";
  job.model = *model::preset(model);
  cluster::Datacenter site;
  site.name = "site";
  site.device = *cluster::catalog_device(device);
  site.nodes = 8;
  site.devices_per_node = site.scale_up.domain = 8;
  site.scale_up.bandwidth = 32_GBps;
  job.cluster.datacenters = {site};
  job.parallelism.tensor = tensor;
  job.parallelism.data = 64 / tensor;
  job.parallelism.sequence_parallel = tensor > 1;
  job.training.global_batch = 512;
  job.training.stack = "megatron";
  return job;
}

TEST(PlanStrands, HidesMostOfWhatSlowLinksTake) {
  const StrandAnswer answer = *plan_strands(job_of("llama3-70b", "a40-48g", 8), {});
  EXPECT_EQ(answer.plan.states, 15 * 106);
  EXPECT_EQ(answer.refused, "");
  EXPECT_GT(answer.expected_gain(), 1.2);
  EXPECT_LT(answer.gain.low, answer.expected_gain());
  EXPECT_GT(answer.gain.low, 1);
  // No plan is shorter than its computation, nor a schedule without barriers longer than with.
  EXPECT_GE(answer.paired, answer.exposure.computation);
  EXPECT_LE(answer.streams.seconds, answer.plan.seconds);
  EXPECT_LE(answer.plan.seconds, answer.equation_2);
  const Exposure& e = answer.exposure;
  EXPECT_NEAR(e.seconds, e.computation + e.slowdown + e.waiting[0] + e.standing, 1e-9 * e.seconds);
  EXPECT_GT(answer.memory_more.value, 0);
  // Every operator runs once.
  PairSet seen;
  for (const OperatorRun& run : answer.runs) seen.add(run.op, answer.pair.forward().size());
  EXPECT_EQ(seen, answer.pair.all());
}

TEST(PlanStrands, RefusesWhatTheNoiseMayEat) {
  StrandOptions options;
  options.search.barrier = 1;  // a second
  options.execution = Execution::kBarriers;
  const StrandAnswer slow = *plan_strands(job_of("llama3-8b", "h100-80g", 2), options);
  EXPECT_THAT(slow.refused, ::testing::HasSubstr("below the noise"));
  // What the stack hides by itself is no gain: with dearer barriers there comes a point where strands
  // still beat one after the other and no longer beat NeMo.
  plan::Job job = job_of("llama3-8b", "h100-80g", 8);
  job.training.stack = "nemo";
  options.uncertainty.law = 0;
  std::string refused;
  for (options.search.barrier = 1e-5; refused.empty(); options.search.barrier *= 1.5) {
    refused = plan_strands(job, options)->refused;
  }
  EXPECT_THAT(refused, ::testing::HasSubstr("the stack nemo hides as much on its own"));
}

// By a roofline element-wise operators of a CPU take no time, which is in the products: they end when they start.
TEST(PlanStrands, PlansOperatorsThatTakeNoTime) {
  plan::Job job = job_of("llama3-8b", "cpu", 8);
  job.training.stack = "tombolo";
  const StrandAnswer answer = *plan_strands(job, {});
  EXPECT_EQ(answer.pair[0].name, "LN1");
  EXPECT_EQ(answer.pair[0].seconds, 0);
  EXPECT_EQ(answer.runs.size(), answer.pair.size());
  EXPECT_DOUBLE_EQ(replay(answer.pair, answer.streams), answer.streams.seconds);
}

// Nothing is published of CPUs: without a profile nothing overlaps. With one, of 100 us an operator and scatters that
// hide behind products, there is a plan, whose 32 operators the law prices no more.
TEST(PlanStrands, PlansForCpusByWhatWasMeasured) {
  plan::Job job = job_of("llama3-8b", "cpu", 8);
  job.training.stack = "tombolo";
  const StrandAnswer roofline = *plan_strands(job, {});
  EXPECT_EQ(roofline.overlap, "one after the other, since nothing is published of CPUs");
  EXPECT_THAT(roofline.refused, ::testing::HasSubstr("below the noise"));
  StrandOptions options;
  options.profile.emplace();
  for (const Dag* dag : {&roofline.pair.forward(), &roofline.pair.backward()}) {
    for (const Operator& op : dag->operators())
      options.profile->rows.push_back(
          {.first = op.name, .microseconds = {.first = 100}, .repeats = 16, .spread = 0.04});
  }
  options.profile->rows.push_back(
      {.first = "product",
       .second = "local",
       .microseconds = {.first = 100, .second = 100, .first_beside = 100, .second_beside = 100},
       .repeats = 16,
       .spread = 0.04});
  const StrandAnswer measured = *plan_strands(job, options);
  EXPECT_NEAR(measured.by_stack, 32 * 100e-6, 1e-12);
  EXPECT_EQ(measured.refused, "");
  EXPECT_EQ(measured.overlap,
            "the profile, and where it says nothing one after the other, since nothing is "
            "published of CPUs");
  for (const std::string& note : measured.notes)
    EXPECT_THAT(note, ::testing::Not(::testing::HasSubstr("roofline")));
  options.profile->rows.erase(options.profile->rows.begin());
  EXPECT_THAT(plan_strands(job, options)->notes,
              ::testing::Contains(::testing::HasSubstr("roofline")));
}

TEST(PlanStrands, SaysWhatItCannotDo) {
  plan::Job job = job_of("llama3-8b", "h100-80g", 1);
  EXPECT_THAT(plan_strands(job, {}).error().text(), ::testing::HasSubstr("nothing to hide"));
  EXPECT_EQ(plan_strands(job, {}).error().code, ErrorCode::kInfeasible);
  job = job_of("llama3-8b", "h100-80g", 8);
  job.training.global_batch = 8;
  EXPECT_THAT(plan_strands(job, {}).error().text(), ::testing::HasSubstr("one microbatch"));
  job = job_of("llama3-8b", "h100-80g", 8);
  EXPECT_THAT(plan_strands(job, {.layers = 5}).error().text(), ::testing::HasSubstr("--layers 3"));
  EXPECT_THAT(plan_strands(job, {.dense = true}).error().text(),
              ::testing::HasSubstr("no dense layers"));
  job.model.reset();
  EXPECT_THAT(plan_strands(job, {}).error().text(), ::testing::HasSubstr("model is missing"));
}

// With context parallelism over 32 attention falls into 32 pieces. A dense layer without tensor parallelism
// has 10 and 14 operators: 10 + 62 = 72 forward, 14 + 63 = 77 backward; over 16 they are 45.
TEST(PlanStrands, ALayerOfTooManyOperatorsIsBeyondTheLaw) {
  plan::Job job = job_of("llama3-8b", "h100-80g", 1);
  job.parallelism.data = 2;
  job.parallelism.context = 32;
  const Result<StrandAnswer> wide = plan_strands(job, {});
  ASSERT_FALSE(wide);
  EXPECT_EQ(wide.error().code, ErrorCode::kInfeasible);
  EXPECT_EQ(
      wide.error().text(),
      "job.toml: context = 32: a pass through a layer has 77 operators, and a strand at most 64\n"
      "  try context = 16 or less, or leave strands out");
  EXPECT_EQ(plan_strands(job, {.layers = int64_t{1} << 62}).error().code, ErrorCode::kInfeasible);
  job.parallelism.context = 16;
  EXPECT_TRUE(plan_strands(job, {}));
  EXPECT_THAT(plan_strands(job, {.layers = int64_t{1} << 62}).error().text(),
              ::testing::HasSubstr("--layers 1"));
}

TEST(PlanStrands, PlansSeveralLayersAsOne) {
  const plan::Job job = job_of("llama3-70b", "a40-48g", 8);
  StrandOptions options;
  options.search.segment_max = 3;
  const StrandAnswer one = *plan_strands(job, options);
  options.layers = 2;
  const StrandAnswer two = *plan_strands(job, options);
  EXPECT_NEAR(two.sequential, 2 * one.sequential, 1e-9 * two.sequential);
  EXPECT_LE(two.plan.seconds, 2 * one.plan.seconds * (1 + 1e-9));
}

// With all that is measured alike, copies hide better than kernels that take multiprocessors.
TEST(PlanStrands, CopiesAndSharesAreDecisions) {
  const plan::Job job = job_of("llama3-70b", "a40-48g", 8);
  const StrandAnswer kernels = *plan_strands(job, {});
  const StrandAnswer copies = *plan_strands(job, {.copies = {Stream::kLocal}});
  EXPECT_LT(copies.paired, kernels.paired);
  const StrandAnswer chosen = *plan_strands(job, {.sm_shares = {0.02, 0.1, 0.3}});
  ASSERT_TRUE(chosen.sm_share);
  for (const double share : {0.02, 0.1, 0.3}) {
    EXPECT_LE(chosen.paired, plan_strands(job, {.sm_shares = {share}})->paired);
  }
}

// Megatron's constants hide nothing of tensor communication, so that a layer takes all of its
// computation and of its communication; alone, a strand scatters gradients beside a product.
TEST(PlanStrands, SaysWhyTheStackByItselfIsSlowerThanOneAfterTheOther) {
  const StrandAnswer megatron = *plan_strands(job_of("llama3-70b", "a40-48g", 8), {});
  const Exposure& parts = megatron.exposure;
  EXPECT_NEAR(megatron.by_stack, parts.computation + parts.communication_total(), 1e-9);
  EXPECT_GT(megatron.by_stack, megatron.sequential);
  EXPECT_THAT(megatron.notes, ::testing::Contains(::testing::HasSubstr(
                                  "the constants of megatron hide 0 % of tensor communication")));
}

// A profile replaces times and paces; measured with little spread it makes the gain surer.
TEST(PlanStrands, TakesAProfile) {
  const plan::Job job = job_of("llama3-70b", "a40-48g", 8);
  StrandOptions options;
  options.profile = *parse_profile(
      "first,second,first_us,second_us,first_beside_us,second_beside_us,repeats,spread\n"
      "FC1,,1000000,,,,100,0.01\nproduct,local,100,100,100,100,100,0.01\n",
      "overlap.csv");
  const StrandAnswer answer = *plan_strands(job, options);
  EXPECT_GT(answer.sequential, 1);
  EXPECT_THAT(answer.overlap, ::testing::StartsWith("the profile"));
}

}  // namespace
}  // namespace tombolo::strand
