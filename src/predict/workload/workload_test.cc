// Workloads: the graphs of all ranks hold together, and add up to what estimate and traffic count.
#include "predict/workload/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "predict/estimate/estimate.h"
#include "support/small_job.h"

namespace tombolo::workload {
namespace {

using graph::CollectiveType;
using graph::Node;
using graph::NodeType;
using ::testing::HasSubstr;

plan::Job small_job() { return job_of_small_model(8, 8, 16); }

plan::Job with_experts(plan::Job job) {
  job.model->experts.emplace();
  job.model->experts->count = 8;
  job.model->experts->per_token = 2;
  job.model->experts->ffn = 128;
  job.model->experts->dense_layers = 2;
  return job;
}

struct Case {
  const char* name;
  layout::Parallelism parallelism;
  model::Recompute recompute = model::Recompute::kNone;
  bool experts = false;
};

plan::Job job_of(const Case& c) {
  plan::Job job = c.experts ? with_experts(small_job()) : small_job();
  job.parallelism = c.parallelism;
  job.training.recompute = c.recompute;
  return job;
}

std::vector<Case> cases() {
  using enum model::Recompute;
  return {
      {"tensor", {{.tensor = 4, .pipeline = 1}}},
      {"sequence", {{.tensor = 4, .data = 2, .pipeline = 1, .sequence_parallel = true}}},
      {"recompute", {{.tensor = 2, .data = 2, .pipeline = 2, .sequence_parallel = true}}, kFull},
      {"context", {{.tensor = 2, .context = 2, .data = 2, .pipeline = 2}}, kSelective},
      {"whole", {{.context = 4, .pipeline = 1}}, kFull},
      {"zero1", {{.data = 4, .pipeline = 2, .zero = 1}}},
      {"zero3", {{.tensor = 2, .data = 4, .pipeline = 1, .zero = 3, .sequence_parallel = true}}},
      {"zero3 pipeline", {{.context = 2, .data = 2, .pipeline = 2, .zero = 3}}, kFull},
      {"experts", {{.data = 4, .pipeline = 2, .expert = 4}}, kNone, true},
      {"all",
       {{.tensor = 2,
         .context = 2,
         .data = 2,
         .pipeline = 2,
         .expert = 2,
         .zero = 2,
         .sequence_parallel = true}},
       kFull,
       true},
      {"interleaved",
       {{.tensor = 2, .data = 2, .pipeline = 2, .virtual_stages = 2},
        layout::ScheduleKind::kInterleaved}},
      {"zero2 chunks",
       {{.data = 2, .pipeline = 2, .virtual_stages = 2, .zero = 2},
        layout::ScheduleKind::kInterleaved}},
      {"zero-bubble",
       {{.tensor = 2, .data = 2, .pipeline = 4, .zero = 1}, layout::ScheduleKind::kZbH1}},
      {"gpipe", {{.data = 2, .pipeline = 4}, layout::ScheduleKind::kGpipe}},
  };
}

Workload workload_of(const plan::Job& job, Granularity granularity = Granularity::kLayer) {
  auto made = Workload::make(job, {.granularity = granularity});
  if (!made) {
    ADD_FAILURE() << made.error().text();
    std::abort();
  }
  return std::move(*made);
}

graph::Graphs graphs_of(const Workload& workload) {
  graph::Graphs out;
  for (int32_t rank = 0; rank < workload.ranks(); ++rank) out.push_back(workload.graph(rank));
  return out;
}

// What a rank hands to others, as a ring or an exchange among the n of its group does it.
double sent(const Node& node) {
  const auto n = static_cast<double>(node.comm_group.size());
  const auto size = static_cast<double>(node.comm_size);
  if (node.collective == CollectiveType::kAllGather) return size * (n - 1);
  return size * (n - 1) / n * (node.collective == CollectiveType::kAllReduce ? 2 : 1);
}

class Workloads : public ::testing::TestWithParam<Granularity> {};

TEST_P(Workloads, AllRanksTogetherAreSound) {
  for (const Case& c : cases()) {
    const Workload workload = workload_of(job_of(c), GetParam());
    const Status sound = graph::validate(graphs_of(workload));
    EXPECT_TRUE(sound) << c.name << ": " << sound.error().text();
  }
}

// Each gathering of parameters waits for the load of what the rank gives to it, and each sum of
// gradients is stored as it was cut up: 2-byte parameters, 4-byte gradients.
TEST(RemoteParameters, AreLoadedBeforeTheyAreGatheredAndStoredWhenSummed) {
  const plan::Job job = job_of({"zero3", {{.tensor = 2, .data = 4, .pipeline = 1, .zero = 3}}});
  const auto workload = Workload::make(job, {.remote_parameters = true});
  ASSERT_TRUE(workload) << workload.error().text();
  const graph::Graphs graphs = graphs_of(*workload);
  EXPECT_TRUE(graph::validate(graphs));
  const std::vector<Node>& nodes = graphs[0].nodes;
  int loads = 0, stores = 0;
  for (const Node& node : nodes) {
    const bool shards =
        node.type == NodeType::kCollective && Workload::kind_of(node) == TrafficKind::kData;
    if (shards && node.collective == CollectiveType::kAllGather) {
      const bool loaded =
          std::any_of(node.data_deps.begin(), node.data_deps.end(), [&](int64_t id) {
            const Node& before = nodes[static_cast<size_t>(id)];
            return before.type == NodeType::kMemoryLoad && before.tensor_size == node.comm_size;
          });
      EXPECT_TRUE(loaded) << node.name;
    }
    loads += node.type == NodeType::kMemoryLoad;
    if (node.type != NodeType::kMemoryStore) continue;
    ++stores;
    const Node& summed = nodes[static_cast<size_t>(node.data_deps.back())];
    EXPECT_EQ(summed.collective, CollectiveType::kReduceScatter) << node.name;
    EXPECT_NEAR(static_cast<double>(node.tensor_size), static_cast<double>(summed.comm_size) / 4,
                0.5);
  }
  EXPECT_EQ(loads, 2 * stores);  // forward and backward
  EXPECT_GT(stores, 0);
  const auto zero1 = Workload::make(job_of({"zero1", {{.data = 4, .pipeline = 2, .zero = 1}}}),
                                    {.remote_parameters = true});
  ASSERT_FALSE(zero1);
  EXPECT_NE(zero1.error().text().find("zero = 3"), std::string::npos) << zero1.error().text();
}

// Bytes of every kind, as traffic counts them.
void expect_traffic(const plan::Job& job, const graph::Graphs& graphs) {
  std::array<double, kTrafficKinds> bytes{}, rounding{};
  for (const graph::Graph& graph : graphs) {
    for (const Node& node : graph.nodes) {
      if (node.type == NodeType::kSend) {
        bytes[static_cast<size_t>(TrafficKind::kPipeline)] += static_cast<double>(node.comm_size);
      } else if (node.type == NodeType::kCollective) {
        const auto kind = static_cast<size_t>(Workload::kind_of(node));
        bytes[kind] += sent(node);
        rounding[kind] += 0.5 * static_cast<double>(node.comm_group.size());
      }
    }
  }
  const TrafficSummary traffic = Traffic::make(job, {})->summarize();
  for (size_t kind = 0; kind < kTrafficKinds; ++kind) {
    const double counted = traffic.by_kind[kind].total().bytes.value;
    EXPECT_NEAR(bytes[kind], counted, rounding[kind] + counted * 1e-12) << kind;
  }
}

TEST_P(Workloads, BytesOfEveryKindAreThoseOfTraffic) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const plan::Job job = job_of(c);
    expect_traffic(job, graphs_of(workload_of(job, GetParam())));
  }
}

// A hundred parallelisms drawn by chance, at most 64 ranks.
TEST_P(Workloads, AnyParallelismIsSoundAndMovesWhatTrafficCounts) {
  Random random(20260101);
  const auto draw = [&](std::vector<int64_t> from) {
    return from[static_cast<size_t>(random.below(from.size()))];
  };
  for (int i = 0; i < 100; ++i) {
    Case c{"", {{.tensor = draw({1, 2, 4}), .data = draw({1, 2}), .pipeline = draw({1, 2, 4})}}};
    layout::Parallelism& p = c.parallelism;
    p.context = draw({1, 2});
    p.zero = draw({0, 1, 2, 3});
    p.sequence_parallel = draw({0, 1}) == 1;
    p.virtual_stages = p.pipeline > 1 ? draw({1, 2}) : 1;
    p.schedule = layout::default_schedule(p.virtual_stages);
    c.experts = draw({0, 1}) == 1;
    if (c.experts && (p.tensor == 1 || p.sequence_parallel))
      p.expert = draw({1, p.context * p.data});
    if (draw({0, 1}) == 1) p.order = "tp-ep-dp-cp-pp";
    c.recompute = static_cast<model::Recompute>(draw({0, 1, 2}));
    plan::Job job = job_of(c);
    job.model->tied_embeddings = draw({0, 1}) == 1;
    SCOPED_TRACE(fmt::format("case {}: tensor {} pipeline {} data {} context {} expert {} zero {}",
                             i, p.tensor, p.pipeline, p.data, p.context, p.expert, p.zero));
    const graph::Graphs graphs = graphs_of(workload_of(job, GetParam()));
    const Status sound = graph::validate(graphs);
    EXPECT_TRUE(sound) << sound.error().text();
    expect_traffic(job, graphs);
  }
}

// Three times the forward pass of all sequences, and what is done again.
TEST_P(Workloads, OperationsAreThoseOfTheModel) {
  for (const Case& c : cases()) {
    const plan::Job job = job_of(c);
    const model::Model& m = *job.model;
    const int64_t batch = job.training.global_batch;
    double expected = 3 * model::forward_flops(m, {0, m.layers, true, true}, batch).value;
    if (c.recompute == model::Recompute::kFull) {
      expected += model::forward_flops(m, {0, m.layers, false, false}, batch).value;
    } else if (c.recompute == model::Recompute::kSelective) {
      expected += model::score_flops(m, {0, m.layers, false, false}, batch).value;
    }
    double operations = 0, nodes = 0;
    for (const graph::Graph& graph : graphs_of(workload_of(job, GetParam()))) {
      for (const Node& node : graph.nodes) operations += static_cast<double>(node.num_ops);
      nodes += static_cast<double>(graph.nodes.size());
    }
    EXPECT_NEAR(operations, expected, nodes) << c.name;
  }
}

// Without a pipeline an iteration computes as long as estimate says, optimizer and host included.
TEST_P(Workloads, ComputationTakesWhatEstimateSays) {
  for (const Case& c : cases()) {
    if (c.parallelism.pipeline > 1) continue;
    const plan::Job job = job_of(c);
    const Workload workload = workload_of(job, GetParam());
    double seconds = 0, nodes = 0;
    const graph::Graph graph = workload.graph(0);
    for (const Node& node : graph.nodes) {
      seconds += static_cast<double>(node.duration.ns) * 1e-9;
      nodes += 1;
    }
    const cost::IterationTime parts = estimate::estimate(job, cost::Law::kTombolo)->parts;
    EXPECT_NEAR(seconds, (parts.compute + parts.optimizer + parts.overhead).value, nodes * 1e-9)
        << c.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Both, Workloads,
                         ::testing::Values(Granularity::kLayer, Granularity::kStage),
                         [](const auto& info) {
                           return info.param == Granularity::kLayer ? "by_layer" : "by_stage";
                         });

// Two ranks share each layer of one stage; 8 layers, each two sums forward and two backward, one
// around the embedding and one before the head: 34 all-reduces in each of 16 microbatches. The
// group is that of all ranks, which has no name.
TEST(Workload, TensorParallelismByHand) {
  plan::Job job = small_job();
  job.parallelism.tensor = 2;
  const Workload workload = workload_of(job);
  EXPECT_TRUE(workload.groups().empty());
  int64_t sums = 0;
  for (const Node& node : workload.graph(1).nodes) {
    if (node.type != NodeType::kCollective) continue;
    ++sums;
    EXPECT_EQ(node.collective, CollectiveType::kAllReduce);
    EXPECT_EQ(node.comm_size, 32 * 64 * 2);
    EXPECT_EQ(node.details->pg_name, "");
  }
  EXPECT_EQ(sums, 16 * 34);
}

// Ranks of tensor x data x pipeline = 2 x 2 x 2: four pairs of neighbours share layers, and ranks
// 0, 2 / 1, 3 / 4, 6 / 5, 7 sum gradients. The head is tied to the embedding: 0 and 4, ... sum it.
TEST(Workload, GroupsAreNumberedAcrossKinds) {
  plan::Job job = small_job();
  job.model->tied_embeddings = true;
  job.parallelism = {{.tensor = 2, .data = 2, .pipeline = 2}};
  const chakra::CommGroups groups = workload_of(job).groups();
  using Ranks = std::vector<int32_t>;
  EXPECT_EQ(groups, (chakra::CommGroups{{"1", Ranks{0, 1}},
                                        {"2", Ranks{2, 3}},
                                        {"3", Ranks{4, 5}},
                                        {"4", Ranks{6, 7}},
                                        {"5", Ranks{0, 2}},
                                        {"6", Ranks{1, 3}},
                                        {"7", Ranks{4, 6}},
                                        {"8", Ranks{5, 7}},
                                        {"9", Ranks{0, 4}},
                                        {"10", Ranks{1, 5}},
                                        {"11", Ranks{2, 6}},
                                        {"12", Ranks{3, 7}}}));
}

// Sums of gradients wait for nothing but the backward pass of their layer, the optimizer for all.
TEST(Workload, GradientsAreSummedBesideComputation) {
  plan::Job job = small_job();
  job.parallelism.data = 2;
  job.training.global_batch = 2;  // one microbatch each
  const graph::Graph graph = workload_of(job).graph(0);
  const Node& update = graph.nodes.back();
  EXPECT_EQ(update.name, "0U");
  // Eight layers, head and embedding are summed one after the other; the last computation is the
  // embedding's gradient.
  EXPECT_EQ(update.data_deps.size(), 11);
  for (const Node& node : graph.nodes) {
    if (node.type != NodeType::kCompute) continue;
    for (const int64_t id : node.data_deps) {
      EXPECT_TRUE(&node == &update ||
                  graph.nodes[static_cast<size_t>(id)].type == NodeType::kCompute);
    }
  }
}

TEST(Workload, WhatCannotBeIsRefusedByName) {
  const auto complaint = [](const plan::Job& job) {
    const auto made = Workload::make(job, {});
    return made ? "" : made.error().text();
  };
  plan::Job job = small_job();
  job.parallelism.expert = 2;
  EXPECT_THAT(complaint(job), HasSubstr("the model has no experts"));
  job = small_job();
  job.parallelism.pipeline = 2;
  job.parallelism.tensor_per_stage = {2, 4};
  EXPECT_THAT(complaint(job), HasSubstr("tensor_per_stage = [2, 4]"));
  job = small_job();
  job.model.reset();
  EXPECT_THAT(complaint(job), HasSubstr("model is missing"));
}

TEST(Workload, SaysWhatItsGraphsLeaveOut) {
  plan::Job job = small_job();
  job.parallelism.data = 2;
  job.parallelism.pipeline = 1;
  job.training.global_batch = 8 * job.training.micro_batch;
  job.parallelism.microbatches_per_replica = {4, 4};
  job.exchange = plan::Exchange{.mode = plan::ExchangeMode::kSparse};
  EXPECT_THAT(Workload::make(job, {})->notes(), ::testing::IsEmpty());
  job.parallelism.microbatches_per_replica = {3, 5};
  EXPECT_THAT(Workload::make(job, {})->notes(),
              ::testing::ElementsAre(HasSubstr("every pipeline is counted with 5 of them")));
  job.parallelism.microbatches_per_replica = {};
  job.cluster.datacenters.push_back(job.cluster.datacenters.front());
  job.cluster.datacenters.back().name = "there";
  job.parallelism.datacenter_per_replica = {job.cluster.datacenters.front().name, "there"};
  job.cluster.wan.push_back({.between = job.parallelism.datacenter_per_replica,
                             .one_way_latency = 10_ms,
                             .node_pair_limit = 1_Gbps});
  const auto apart = Workload::make(job, {});
  ASSERT_TRUE(apart) << apart.error().text();
  EXPECT_THAT(apart->notes(), ::testing::Contains(HasSubstr("[exchange] mode = \"sparse\"")));
}

TEST(Workload, KnowsItsOwnCollectives) {
  const auto workload = Workload::make(small_job(), {});
  ASSERT_TRUE(workload) << workload.error().text();
  EXPECT_DEATH(workload->groups_of(Workload::kKinds), "groups of kind 6 of 6");
  EXPECT_DEATH(Workload::kind_of({.id = 4, .name = "F", .type = NodeType::kCompute}),
               "node 4 \\(\"F\"\\) is no collective of a workload");
}

}  // namespace
}  // namespace tombolo::workload
