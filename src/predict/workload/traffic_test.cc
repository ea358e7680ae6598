#include "predict/workload/traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::workload {
namespace {

using ::testing::HasSubstr;

plan::Job job_on(int64_t nodes, int64_t domain, const std::string& preset = "gpt-22b") {
  plan::Job job;
  job.file = "job.toml";
  job.model = *model::preset(preset);
  cluster::Datacenter datacenter;
  datacenter.name = "oregon";
  datacenter.nodes = nodes;
  datacenter.devices_per_node = domain;
  datacenter.scale_up.domain = domain;
  job.cluster.datacenters = {datacenter};
  job.training.precision = plan::Precision::kFp16;
  job.training.recompute = model::Recompute::kSelective;
  job.parallelism.sequence_parallel = true;
  return job;
}

Traffic traffic_of(const plan::Job& job, const TrafficOptions& options = {}) {
  const Result<Traffic> made = Traffic::make(job, options);
  EXPECT_TRUE(made) << made.error().text();
  return *made;
}

std::string complaint(const plan::Job& job) {
  const Result<Traffic> made = Traffic::make(job, {});
  return made ? "" : made.error().text();
}

// GPT 22B on two domains of 8: 48 layers of h = 6144, s = 2048, 4 microbatches of one sequence on
// each of two replicas.
TEST(Traffic, by_hand) {
  plan::Job job = job_on(2, 8);
  job.training.global_batch = 8;
  job.parallelism.tensor = 8;
  job.parallelism.data = 2;
  const TrafficSummary s = traffic_of(job).summarize();

  // D = 2048 x 6144 x 2 B = 25,165,824 B. 8 gathers and scatters in a layer, two around the
  // embedding, two around the head: 48 x 8 + 4 = 388 in each of 4 microbatches. A GPU sends 7/8:
  // 7/8 x 4 x 388 x 25,165,824 = 34,175,188,992 B to one neighbour.
  const KindTraffic& tensor = s.of(TrafficKind::kTensor);
  EXPECT_EQ(tensor.gpu_max.value, 34'175'188'992.0);
  EXPECT_EQ(tensor.at(PairReach::kDomain).bytes.value, 16 * 34'175'188'992.0);
  EXPECT_EQ(tensor.at(PairReach::kDomain).pairs, 16);

  // An eighth of the gradients, 2 B each, reduced and gathered: half of them each time.
  const KindTraffic& data = s.of(TrafficKind::kData);
  const double gradients = static_cast<double>(model::parameters(*job.model)) / 8 * 2;
  EXPECT_EQ(data.at(PairReach::kRail).bytes.value, 16 * gradients);
  EXPECT_EQ(data.total().pairs, 16);
  EXPECT_EQ(s.pairs, 16 * 15);
  EXPECT_EQ(s.pairs_without_traffic, 240 - 32);
  EXPECT_EQ(s.forwarding.bytes.value, 0);
}

TEST(Traffic, stages_send_forth_and_back_and_around_with_virtual_stages) {
  plan::Job job = job_on(4, 1);
  job.training.global_batch = 8;
  job.parallelism.pipeline = 4;
  job.parallelism.virtual_stages = 3;
  job.parallelism.schedule = layout::ScheduleKind::kInterleaved;
  const Traffic traffic = traffic_of(job);
  const TrafficMatrix m = traffic.matrix(0, 4, 4);
  // 8 microbatches of 2048 x 6144 x 2 B, three times to the next stage, twice from last to first.
  // Copies of the embedding, 51200 x 6144 x 2 B, lie on the last and the first stage.
  const double boundary = 8 * 25'165'824.0, tied = 51200 * 6144 * 2.0;
  EXPECT_EQ(m.at(TrafficKind::kPipeline, 1, 2), 3 * boundary);
  EXPECT_EQ(m.at(TrafficKind::kPipeline, 2, 1), 3 * boundary);
  EXPECT_EQ(m.at(TrafficKind::kPipeline, 3, 0), 2 * boundary + tied);
  EXPECT_EQ(m.at(TrafficKind::kPipeline, 0, 3), 2 * boundary + tied);
  EXPECT_EQ(m.at(TrafficKind::kPipeline, 0, 2), 0);
}

TEST(Traffic, zero_gathers_parameters_instead_of_gradients) {
  plan::Job job = job_on(1, 4);
  job.training.precision = plan::Precision::kBf16;  // weights of 2 B, gradients summed in 4 B
  job.training.global_batch = 12;
  job.parallelism.data = 4;
  const auto parameters = static_cast<double>(model::parameters(*job.model));
  job.training.stack = "megatron";
  // Bytes per parameter: 4 + 4, 4 + 2, in each of 3 microbatches 4 and once 2, and in each 2 + 2 + 4.
  for (const auto& [zero, bytes] : {std::pair(0, 8.0), {1, 6.0}, {2, 14.0}, {3, 24.0}}) {
    job.parallelism.zero = zero;
    EXPECT_EQ(traffic_of(job).summarize().of(TrafficKind::kData).gpu_max.value,
              parameters * bytes * 3 / 4)
        << zero;
  }
}

TEST(Traffic, zero_2_in_a_pipeline_is_zero_1) {
  plan::Job job = job_on(1, 8);
  job.training.global_batch = 16;
  job.parallelism.data = 4;
  job.parallelism.pipeline = 2;
  const auto data = [&](int64_t zero) {
    job.parallelism.zero = zero;
    return traffic_of(job).summarize().of(TrafficKind::kData).total().bytes.value;
  };
  EXPECT_GT(data(1), 0);
  EXPECT_EQ(data(2), data(1));
  // Two chunks a rank: 16 microbatches of 4 pipelines are 4 each, in two rounds of two. Gradients of
  // 2 B twice and parameters of 2 B once.
  job.parallelism.virtual_stages = 2;
  job.parallelism.schedule = layout::ScheduleKind::kInterleaved;
  EXPECT_DOUBLE_EQ(data(2) / data(1), (2 * 2 + 2) / (2.0 + 2));
}

// Experts across domains: every GPU sends (x-1)(y-1) of the n shares across rails (appendix D).
TEST(Traffic, experts_across_domains_need_forwarding) {
  plan::Job job = job_on(4, 8, "mixtral-8x7b");
  job.model->experts->count = 32;
  job.training.global_batch = 32;
  job.parallelism.data = 32;
  job.parallelism.expert = 32;
  const TrafficSummary s = traffic_of(job).summarize();
  const KindTraffic& expert = s.of(TrafficKind::kExpert);
  const double each = expert.total().bytes.value / (32 * 31);
  EXPECT_EQ(expert.total().pairs, 32 * 31);
  EXPECT_NEAR(expert.at(PairReach::kDomain).bytes.value, 32 * 7 * each, 1);
  EXPECT_NEAR(expert.at(PairReach::kRail).bytes.value, 32 * 3 * each, 1);
  EXPECT_NEAR(s.forwarding.bytes.value, 32 * 7 * 3 * each, 1);
  EXPECT_NEAR(s.forwarding.busiest_forwarded.value, 8 * 7 * 3 * each, 1);
  // 32 layers, dispatched and combined, forward and backward: 128 times 2 of 32 experts for each
  // of 32768 tokens of 4096 numbers.
  EXPECT_DOUBLE_EQ(each, 128 * 2.0 / 32 * 32768 * 4096 * 2);
  // With all experts of a layer in each domain nothing is forwarded.
  job.parallelism.expert = 8;
  EXPECT_EQ(traffic_of(job).summarize().forwarding.bytes.value, 0);
}

// Llama 3 8B: 8 heads of keys and 8 of values, 128 wide, in each of 32 layers.
TEST(Traffic, context_by_hand) {
  plan::Job job = job_on(1, 8, "llama3-8b");
  job.training.global_batch = 3;
  job.parallelism.tensor = 2;
  job.parallelism.context = 4;
  // 3 microbatches, 32 layers, 4 rings of 8192 x 2 x 4 x 128 x 2 B, three quarters of each.
  const double whole = 3 * 32 * 4 * (8192.0 * 2 * 4 * 128 * 2);
  const TrafficSummary selective = traffic_of(job).summarize();
  EXPECT_EQ(selective.of(TrafficKind::kContext).gpu_max.value, whole * 3 / 4);
  // Nothing computed again, nothing sent again.
  job.training.recompute = model::Recompute::kNone;
  const TrafficSummary none = traffic_of(job).summarize();
  EXPECT_EQ(none.of(TrafficKind::kContext).gpu_max.value, whole * 3 / 4 * 3 / 4);
  EXPECT_EQ(none.of(TrafficKind::kTensor).gpu_max.value,
            selective.of(TrafficKind::kTensor).gpu_max.value);
  // The whole layer once more: a layer has 12 gathers and scatters instead of 8, the ends 4.
  job.training.recompute = model::Recompute::kFull;
  EXPECT_DOUBLE_EQ(traffic_of(job).summarize().of(TrafficKind::kTensor).gpu_max.value,
                   selective.of(TrafficKind::kTensor).gpu_max.value * (32 * 12 + 4) / (32 * 8 + 4));
  // Of keys and values one head each is the least that a rank can hold.
  job.training.recompute = model::Recompute::kNone;
  job.parallelism.tensor = 16;
  job.training.stack = "megatron";  // holds a head of keys on two ranks
  EXPECT_EQ(traffic_of(job).summarize().of(TrafficKind::kContext).gpu_max.value,
            whole * 3 / 4 * 3 / 4 / 4);
}

TEST(Traffic, dense_models_whose_stages_fill_domains_stay_on_their_rails) {
  for (const int64_t domain : {1, 2, 8, 16, 64}) {
    for (const int64_t data : {1, 3, 4, 16}) {
      for (const int64_t context : {1, 2, 8}) {
        plan::Job job = job_on(1, domain);
        job.training.global_batch = 48;
        job.parallelism.tensor = job.parallelism.pipeline = 8;
        job.parallelism.data = data;
        job.parallelism.context = context;
        const int64_t stage = 8 * data * context;
        const TrafficSummary s = traffic_of(job).summarize();
        const bool fills = stage % domain == 0 || 8 * stage <= domain;
        SCOPED_TRACE(fmt::format("domain {}, data {}, context {}", domain, data, context));
        if (fills) {
          EXPECT_EQ(s.forwarding.bytes.value, 0);
        } else {
          EXPECT_GT(s.of(TrafficKind::kPipeline).at(PairReach::kOtherRail).bytes.value, 0);
        }
      }
    }
  }
}

TEST(Traffic, flat_rings_across_domains_change_rails_at_their_edges) {
  plan::Job job = job_on(2, 8);
  job.training.global_batch = 16;
  job.parallelism.data = 16;
  const TrafficSummary rails = traffic_of(job).summarize();
  const TrafficSummary flat = traffic_of(job, {.flat_rings = true, .volume = {}}).summarize();
  EXPECT_NEAR(flat.bytes().value, rails.bytes().value, 1e-6 * rails.bytes().value);
  EXPECT_EQ(rails.forwarding.bytes.value, 0);
  // Two of 16 transfers cross: from 7 to 8 and from 15 to 0.
  EXPECT_DOUBLE_EQ(flat.forwarding.bytes.value, flat.bytes().value * 2 / 16);
}

TEST(Traffic, datacenters_are_apart_and_missing_devices_are_said) {
  plan::Job job = job_on(1, 4);
  job.cluster.datacenters.push_back(job.cluster.datacenters[0]);
  job.cluster.datacenters[1].name = "paris";
  job.training.global_batch = 8;
  job.parallelism.tensor = 4;
  job.parallelism.pipeline = 2;
  const Traffic here = traffic_of(job);
  const KindTraffic pipeline = here.summarize().of(TrafficKind::kPipeline);
  EXPECT_EQ(pipeline.at(PairReach::kOtherDatacenter).pairs, 8);
  EXPECT_EQ(pipeline.total().pairs, 8);
  EXPECT_EQ(here.notes().size(), 1);
  job.parallelism.data = 2;
  EXPECT_THAT(traffic_of(job).notes().front(), HasSubstr("needs 16 devices, the cluster has 8"));
}

// GPUs are where a Plan has them, whatever the order of the file.
TEST(Traffic, follows_the_places_of_a_plan) {
  plan::Job job = job_on(1, 8);
  job.cluster.datacenters.push_back(job.cluster.datacenters[0]);
  job.cluster.datacenters[1].name = "paris";
  job.training.global_batch = 8;
  job.parallelism.tensor = 2;
  job.parallelism.pipeline = 4;
  // By rank all eight would sit in oregon.
  job.parallelism.datacenter_per_stage = {{"oregon"}, {"paris"}, {"paris"}, {"oregon"}};
  const KindTraffic pipeline = traffic_of(job).summarize().of(TrafficKind::kPipeline);
  EXPECT_EQ(pipeline.at(PairReach::kOtherDatacenter).pairs, 8);
  // Between the two stages in paris, and between the copies of the embedding in oregon.
  EXPECT_EQ(pipeline.at(PairReach::kDomain).pairs, 4 + 4);
}

// GPT 22B in two stages, on 2 GPUs and on 4; 8 microbatches of D = 25,165,824 B. Each half of an
// activation is two quarters.
TEST(Traffic, of_unlike_stages_by_hand) {
  plan::Job job = job_on(1, 8);
  job.training.global_batch = 8;
  job.parallelism.pipeline = 2;
  job.parallelism.tensor_per_stage = {2, 4};
  const double boundary = 8 * 25'165'824.0;
  const Traffic split = traffic_of(job);
  EXPECT_EQ(split.gpus(), 6);
  const TrafficMatrix m = split.matrix(0, 6, 6);
  const auto sent = [](const TrafficMatrix& matrix, int64_t from, int64_t to) {
    return matrix.at(TrafficKind::kPipeline, from, to);
  };
  const double tied = 51200 * 6144 * 2.0;  // copies of the embedding, on both stages
  for (const auto& [from, to] :
       {std::pair(0, 2), std::pair(0, 3), std::pair(1, 4), std::pair(1, 5)}) {
    EXPECT_DOUBLE_EQ(sent(m, from, to), (boundary + tied) / 4);
    EXPECT_DOUBLE_EQ(sent(m, to, from), (boundary + tied) / 4);
  }
  EXPECT_EQ(sent(m, 0, 4) + sent(m, 1, 2) + sent(m, 4, 0), 0);
  // Rings of 2 and of 4 over 24 layers each: 8 gathers and scatters of D in a layer, 2 at each end.
  const KindTraffic tensor = split.summarize().of(TrafficKind::kTensor);
  EXPECT_DOUBLE_EQ(tensor.total().bytes.value,
                   8 * (24 * 8 + 2) * 25'165'824.0 * (2 * 0.5 + 4 * 0.75));
  // Without sequence parallelism every GPU has whole activations. As many bytes cross, and each side
  // gathers what came: one gather of D more for each microbatch.
  job.parallelism.sequence_parallel = false;
  job.model->tied_embeddings = false;
  const Traffic whole = traffic_of(job);
  const TrafficMatrix parts = whole.matrix(0, 6, 6);
  EXPECT_DOUBLE_EQ(sent(parts, 0, 2), boundary / 4);
  EXPECT_DOUBLE_EQ(sent(parts, 1, 5), boundary / 4);
  EXPECT_DOUBLE_EQ(sent(parts, 4, 1), boundary / 4);
  EXPECT_EQ(sent(parts, 3, 1), 0);
  EXPECT_DOUBLE_EQ(whole.summarize().of(TrafficKind::kTensor).total().bytes.value,
                   8 * (24 * 8 + 2 + 1) * 25'165'824.0 * (2 * 0.5 + 4 * 0.75));
}

// GPT 22B on 4 GPUs, two chunks each: chunks 0 and 7 on the first, 3 and 4 on the last. 8 microbatches
// cross each of 3 borders twice each way, and both copies of the embedding are one.
TEST(Traffic, folded_stages_send_to_neighbours_alone) {
  plan::Job job = job_on(1, 8);
  job.training.global_batch = 8;
  job.parallelism.pipeline = 4;
  job.parallelism.virtual_stages = 2;
  job.parallelism.schedule = layout::ScheduleKind::kDualPipeV;
  const TrafficMatrix m = traffic_of(job).matrix(0, 4, 4);
  for (int64_t from = 0; from < 4; ++from) {
    for (int64_t to = 0; to < 4; ++to) {
      const bool neighbours = from - to == 1 || to - from == 1;
      EXPECT_EQ(m.at(TrafficKind::kPipeline, from, to), neighbours ? 2 * 8 * 25'165'824.0 : 0)
          << from << " -> " << to;
    }
  }
}

// Two pipelines of two stages with 3 and 5 microbatches, on 8 GPUs: a ring of 2 around 24 layers and an
// end takes 8 x 24 + 2 halves of D for each of them.
TEST(Traffic, pipelines_with_unlike_numbers_of_microbatches) {
  plan::Job job = job_on(1, 8);
  job.training.global_batch = 8;
  job.model->tied_embeddings = false;
  job.parallelism.tensor = job.parallelism.pipeline = job.parallelism.data = 2;
  job.parallelism.microbatches_per_replica = {3, 5};
  const double boundary = 25'165'824.0;
  const auto check = [&](double sent) {
    const Traffic traffic = traffic_of(job);
    const TrafficMatrix m = traffic.matrix(0, 8, 8);
    for (int64_t rank = 0; rank < 4; ++rank) {
      const double microbatches = rank < 2 ? 3 : 5;
      EXPECT_DOUBLE_EQ(m.at(TrafficKind::kTensor, rank, rank ^ 1),
                       microbatches * (8 * 24 + 2) * boundary / 2);
      EXPECT_DOUBLE_EQ(m.at(TrafficKind::kPipeline, rank, rank + 4), microbatches * sent);
      EXPECT_DOUBLE_EQ(m.at(TrafficKind::kPipeline, rank + 4, rank), microbatches * sent);
    }
  };
  check(boundary / 2);
  job.parallelism.tensor_per_stage = {2, 2};  // the same, each stage numbered by itself
  check(boundary / 2);
  job.parallelism.microbatches_per_replica = {3, 6};  // 9 are not twice as many for each
  job.training.global_batch = 9;
  EXPECT_DOUBLE_EQ(traffic_of(job).summarize().of(TrafficKind::kPipeline).total().bytes.value,
                   9 * 2 * boundary);
}

TEST(Traffic, refuses_what_cannot_be_laid_out) {
  plan::Job job = job_on(1, 8);
  job.training.global_batch = 8;
  job.parallelism.tensor = job.parallelism.pipeline = job.parallelism.data = 2;
  job.parallelism.sequence_parallel = false;
  EXPECT_EQ(complaint(job), "");
  plan::Job other = job;
  other.parallelism.order = "tp-dp";
  EXPECT_THAT(complaint(other), HasSubstr("\"pp\" is missing"));
  other.parallelism.order = "tp-tp-dp-pp";
  EXPECT_THAT(complaint(other), HasSubstr("\"tp\" is there twice"));
  other = job;
  other.parallelism.expert = 2;
  EXPECT_THAT(complaint(other), HasSubstr("the model has no experts"));
  other.model = *model::preset("mixtral-8x7b");
  EXPECT_THAT(complaint(other), HasSubstr("sequence_parallel = true"));
  other.parallelism.sequence_parallel = true;
  EXPECT_EQ(complaint(other), "");
  other.parallelism.order = "tp-ep-pp-dp";
  EXPECT_THAT(complaint(other), HasSubstr("\"pp\" last"));
  other.parallelism.expert = 4;
  EXPECT_THAT(complaint(other), HasSubstr("data x context = 2"));
  other.model->experts->count = 9;
  EXPECT_THAT(complaint(other), HasSubstr("9 experts"));
  job.parallelism.data = job.training.global_batch = 1'000'000;
  EXPECT_THAT(complaint(job), HasSubstr("more than 1048576 ranks"));
  job.model.reset();
  EXPECT_THAT(complaint(job), HasSubstr("model is missing"));
}

TEST(Traffic, CallersKeepTheirPromises) {
  plan::Job job = job_on(2, 8);
  job.parallelism.tensor = 8;
  const TrafficMatrix m = traffic_of(job).matrix(0, 8, 4);
  EXPECT_DEATH(m.at(TrafficKind::kTensor, 0, m.side), "from block 0 to 4 of 4");
  job.cluster.datacenters.clear();
  EXPECT_DEATH((void)Traffic::make(job, {}), "8 GPUs without a datacenter");
  EXPECT_DEATH(plan::split_layers(*job.model, {{.pipeline = 7, .virtual_stages = 7}}),
               "48 layers in 49 stages");
  job.model.reset();
  EXPECT_DEATH(microbatch_volume(job, 1), "job.toml: a job without a model");
}

TEST(RankNumbering, RanksAndGroupsExist) {
  const auto numbering = layout::RankNumbering::make({{.tensor = 4, .pipeline = 2}}, "job.toml");
  ASSERT_TRUE(numbering);
  EXPECT_DEATH(numbering->stage_of(8), "rank 8 of 8");
  EXPECT_DEATH(numbering->groups(layout::RankGroup::kTensor).members(2), "group 2 of 2");
}

}  // namespace
}  // namespace tombolo::workload
