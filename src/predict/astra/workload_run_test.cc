// A job simulated by one rank of each class answers what its graphs answer, every rank of which is
// simulated: to the nanosecond, on random jobs and networks, by way of files and without.
#include "predict/astra/workload_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/random.h"
#include "predict/astra/astra_ledger.h"
#include "predict/workload/dlrm.h"
#include "spec/chakra/chakra.h"
#include "support/folder_test.h"
#include "support/seeds.h"
#include "support/small_job.h"

namespace tombolo::astra {
namespace {

using network::Block;
using ::testing::HasSubstr;

plan::Job small_job() { return job_of_small_model(4, 8, 8); }

struct Drawn {
  plan::Job job = small_job();
  std::vector<network::Dimension> dimensions;
  SystemSettings settings;
};

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(Random(seed).stream("workload")) {}

  Drawn all() {
    Drawn out;
    parallelism(out.job);
    const layout::Parallelism& p = out.job.parallelism;
    network(p.tensor * p.context * p.data * p.pipeline, out.dimensions);
    // Half a ring is no ring: members of such a group are not alike.
    if (p.tensor == 4 && out.dimensions[0].npus == 8) out.dimensions[0].block = Block::kRing;
    settings(out);
    return out;
  }

 private:
  Random random_;

  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[random_.below(values.size())];
  }

  void parallelism(plan::Job& job) {
    layout::Parallelism& p = job.parallelism;
    p.tensor = pick<int64_t>({1, 2, 4, 4});
    p.pipeline = pick<int64_t>({1, 2, 2, 4});
    p.data = pick<int64_t>({1, 2, 4});
    p.context = p.tensor * p.pipeline * p.data <= 16 ? pick<int64_t>({1, 2}) : 1;
    p.zero = pick<int64_t>({0, 1, 2, 3});
    p.sequence_parallel = p.tensor > 1 && pick({true, false});
    using enum layout::ScheduleKind;
    p.schedule = pick<layout::ScheduleKind>({k1F1B, k1F1B, kGpipe, kZbH1});
    if (p.pipeline == 2 && p.schedule == k1F1B) {
      p.virtual_stages = pick<int64_t>({1, 2});
      p.schedule = layout::default_schedule(p.virtual_stages);
    }
    if (pick({true, false, false}) && (p.tensor == 1 || p.sequence_parallel)) {
      job.model->experts.emplace();
      job.model->experts->count = 8;
      job.model->experts->per_token = 2;
      job.model->experts->ffn = 128;
      p.expert = pick<int64_t>({1, p.context * p.data});
    }
    if (p.pipeline == 1 && pick({true, false})) p.order = "tp-ep-dp-cp-pp";
    job.model->tied_embeddings = pick({true, false});
    job.training.recompute = static_cast<model::Recompute>(pick<int>({0, 1, 2}));
  }

  // Dimensions that fit the groups, or do not.
  void network(int64_t ranks, std::vector<network::Dimension>& out) {
    do {
      int64_t size = std::min<int64_t>(ranks, pick<int64_t>({2, 4, 8, 8}));
      if (out.size() == 2) size = ranks;
      out.push_back({pick({Block::kRing, Block::kFullyConnected, Block::kSwitch, Block::kSwitch}),
                     static_cast<int32_t>(size), pick<double>({25, 50, 200}),
                     pick<double>({0, 50, 500})});
      ranks /= size;
    } while (ranks > 1);
  }

  void settings(Drawn& out) {
    SystemSettings& s = out.settings;
    s.order = pick({CollectiveOrder::kLastFirst, CollectiveOrder::kFirstFirst});
    s.active_chunks = pick<int32_t>({1, 1, 2});
    s.splits = pick<int64_t>({1, 2, 4});
    s.endpoint_delay = pick<int64_t>({0, 10});
    s.memory_bandwidth = pick<double>({0, 1600});
    const std::string algorithm =
        out.dimensions.size() > 1 ? "ring" : pick<const char*>({"ring", "direct"});
    for (const auto kind :
         {graph::CollectiveType::kAllReduce, graph::CollectiveType::kAllGather,
          graph::CollectiveType::kReduceScatter, graph::CollectiveType::kAllToAll}) {
      s.algorithms[kind].assign(out.dimensions.size(), *network::parse_algorithm(algorithm));
    }
    if (pick({true, false})) return;
    s.groups = GroupShape::kHierarchical;
    s.all_reduce_shape = pick({AllReduceShape::kBaseline, AllReduceShape::kLocalBandwidthAware});
    for (auto& [kind, choices] : s.algorithms) {
      for (network::AlgorithmChoice& choice : choices) {
        choice = *network::parse_algorithm(pick<const char*>({"ring", "direct", "direct1"}));
      }
    }
    if (pick({true, false, false})) s.dimension_order = network::DimensionScheduling::kThemis;
    if (pick({true, false, false})) s.chunk_choice = network::ChunkChoice::kSmallest;
  }
};

class WorkloadRun : public FolderTest {
 protected:
  // As `convert` writes a job, and ASTRA-sim reads it.
  Result<AstraAnswer> by_files(const workload::Workload& workload,
                               const network::Topology& topology, const SystemSettings& settings) {
    const std::string prefix = folder_ + "/job";
    graph::Graphs graphs;
    for (int32_t rank = 0; rank < workload.ranks(); ++rank) {
      auto writer = TRY(chakra::ChakraWriter::create(fmt::format("{}.{}.et", prefix, rank),
                                                     chakra::our_metadata()));
      for (const graph::Node& node : workload.graph(rank, false).nodes) {
        TRY(writer.write(node, rank));
      }
      TRY(writer.commit());
    }
    WorkloadFiles files{prefix, "", false};
    if (const chakra::CommGroups groups = workload.groups(); !groups.empty()) {
      files.comm_groups = folder_ + "/groups.json";
      TRY(write_file(files.comm_groups, chakra::to_json_text(groups)));
    }
    return run_astra(topology, settings, TRY(read_workload(files, topology, settings)), {}, false);
  }

  static Result<AstraAnswer> by_graphs(const workload::Workload& workload,
                                       const network::Topology& topology,
                                       const SystemSettings& settings) {
    graph::Graphs graphs;
    for (int32_t rank = 0; rank < workload.ranks(); ++rank) {
      graphs.push_back(workload.graph(rank, false));
    }
    return run_astra(topology, settings,
                     TRY(make_workload(graphs, workload.groups(), topology, settings)), {}, false);
  }
};

TEST_F(WorkloadRun, ClassesAnswerWhatAllRanksAnswer) {
  int collapsed = 0, by_place = 0, full = 0;
  const uint64_t count = seeds(60, 1000);
  for (uint64_t seed = 1; seed <= count; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Drawn drawn = Draw(seed).all();
    const auto workload =
        workload::Workload::make(drawn.job, {.granularity = workload::Granularity::kStage});
    ASSERT_TRUE(workload) << workload.error().text();
    const auto topology = network::Topology::create(drawn.dimensions);
    ASSERT_TRUE(topology);
    // Files are synced, which takes longer than all the rest.
    const auto files = seed <= 10 ? by_files(*workload, *topology, drawn.settings)
                                  : by_graphs(*workload, *topology, drawn.settings);
    const auto some = run_workload(*workload, *topology, drawn.settings, {});
    ASSERT_EQ(files.has_value(), some.has_value())
        << (files ? some.error().text() : files.error().text());
    if (!files) continue;
    const auto simulated = some->answer.report.ranks.size();
    collapsed += some->answer.collapsed();
    full += !some->answer.collapsed();
    by_place += some->answer.collapsed() && simulated > workload->stages().size();
    EXPECT_EQ(some->not_collapsed.empty(), some->answer.collapsed());
    for (int32_t r = 0; r < workload->ranks(); ++r) {
      ASSERT_EQ(files->rank(r).finish, some->answer.rank(r).finish) << "rank " << r;
      ASSERT_EQ(files->rank(r).communication.ns, some->answer.rank(r).communication.ns) << r;
    }
  }
  // Whether systems are of any use for this test.
  EXPECT_GE(collapsed, 30);
  EXPECT_GE(by_place, 3);
  EXPECT_GE(full, 3);
}

// Algorithms whose members are alike, or not, on some dimensions.
void rarer_algorithms(uint64_t seed, SystemSettings& settings) {
  Random random = Random(seed).stream("algorithms");
  constexpr const char* kRarer[] = {"halvingDoubling", "inSwitch", "doubleBinaryTree"};
  if (random.below(3) > 0) return;
  for (auto& [kind, choices] : settings.algorithms) {
    if (kind == graph::CollectiveType::kAllToAll) continue;
    for (network::AlgorithmChoice& choice : choices) {
      if (random.below(2) == 0) choice = *network::parse_algorithm(kRarer[random.below(3)]);
    }
  }
}

// Shares are sums in another order.
void expect_same_use(const std::vector<trace::DimensionUse>& all,
                     const std::vector<trace::DimensionUse>& some) {
  ASSERT_EQ(all.size(), some.size());
  for (size_t d = 0; d < all.size(); ++d) {
    EXPECT_EQ(all[d].bytes, some[d].bytes) << d;
    EXPECT_EQ(all[d].bytes_max, some[d].bytes_max) << d;
    EXPECT_NEAR(all[d].busy_mean, some[d].busy_mean, 1e-12 * all[d].busy_mean) << d;
    EXPECT_NEAR(all[d].busy_max, some[d].busy_max, 1e-12 * all[d].busy_max) << d;
  }
}

// The same of messages that share links: exact where one rank's messages stand for those of its class, and
// otherwise every rank is simulated.
TEST_F(WorkloadRun, ClassesShareLinksAsAllRanksDo) {
  int collapsed = 0, over_rings = 0, with_tied_ends = 0, full = 0;
  const auto is_ring = [](const network::Dimension& d) { return d.block == Block::kRing; };
  for (uint64_t seed = 1; seed <= seeds(120, 2000); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Drawn drawn = Draw(seed).all();
    drawn.settings.groups = GroupShape::kHierarchical;
    rarer_algorithms(seed, drawn.settings);
    const auto workload =
        workload::Workload::make(drawn.job, {.granularity = workload::Granularity::kStage});
    ASSERT_TRUE(workload) << workload.error().text();
    const auto topology = network::Topology::create(drawn.dimensions);
    WorkloadRunOptions options;
    options.machine.law = NetworkLaw::kFluid;
    AstraLedger of_some, of_all;
    options.machine.observers = {&of_some};
    const auto some = run_workload(*workload, *topology, drawn.settings, options);
    options.machine.observers = {&of_all};
    options.collapse = false;
    const auto all = run_workload(*workload, *topology, drawn.settings, options);
    ASSERT_EQ(all.has_value(), some.has_value())
        << (all ? some.error().text() : all.error().text());
    if (!all) continue;
    ASSERT_FALSE(all->answer.collapsed());
    collapsed += some->answer.collapsed();
    full += !some->answer.collapsed();
    if (some->answer.collapsed()) {
      over_rings += std::any_of(drawn.dimensions.begin(), drawn.dimensions.end(), is_ring);
      with_tied_ends += drawn.job.model->tied_embeddings && drawn.job.parallelism.pipeline > 1;
    }
    for (int32_t r = 0; r < workload->ranks(); ++r) {
      ASSERT_EQ(all->answer.rank(r).finish, some->answer.rank(r).finish) << "rank " << r;
      ASSERT_EQ(all->answer.rank(r).communication.ns, some->answer.rank(r).communication.ns) << r;
    }
    EXPECT_EQ(of_all.exposed_mean(), of_some.exposed_mean());
    EXPECT_EQ(of_all.bytes_sent(), of_some.bytes_sent());
    expect_same_use(of_all.dimensions(), of_some.dimensions());
  }
  EXPECT_GE(collapsed, 40);
  EXPECT_GE(over_rings, 5);
  EXPECT_GE(with_tied_ends, 5);
  EXPECT_GE(full, 10);
}

// Tensor groups of four on rows of three: some lie in one row, others in two.
TEST_F(WorkloadRun, GroupsAcrossDimensionsAreNotTakenForEqual) {
  plan::Job job = small_job();
  job.parallelism = {{.tensor = 4, .data = 3, .pipeline = 1}};
  job.training.global_batch = 6;
  const auto workload =
      workload::Workload::make(job, {.granularity = workload::Granularity::kStage});
  ASSERT_TRUE(workload) << workload.error().text();
  const auto topology =
      network::Topology::create({{Block::kRing, 3, 50, 500}, {Block::kRing, 4, 25, 500}});
  SystemSettings settings;
  settings.splits = 2;
  settings.algorithms[graph::CollectiveType::kAllReduce].assign(2,
                                                                *network::parse_algorithm("ring"));
  const auto files = by_files(*workload, *topology, settings);
  const auto some = run_workload(*workload, *topology, settings, {});
  ASSERT_TRUE(files && some);
  EXPECT_GT(some->answer.report.ranks.size(), 1u);
  for (int32_t r = 0; r < 12; ++r) EXPECT_EQ(files->rank(r).finish, some->answer.rank(r).finish);
  // With less room than all ranks need, the answer is a reason.
  const auto refused = run_workload(*workload, *topology, settings, {.nodes_max = 10});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("ranks have to be simulated"));
}

// 2 stages x 8 ranks; each stage is one class, and its ranks count for all.
TEST_F(WorkloadRun, CountsOverAllRanks) {
  plan::Job job = small_job();
  job.parallelism = {{.tensor = 4, .data = 2, .pipeline = 2}};
  const auto workload = workload::Workload::make(job, {});
  ASSERT_TRUE(workload);
  const auto topology =
      network::Topology::create({{Block::kSwitch, 4, 50, 500}, {Block::kSwitch, 4, 25, 500}});
  SystemSettings settings;
  settings.splits = 2;
  for (const auto kind : {graph::CollectiveType::kAllReduce, graph::CollectiveType::kAllGather}) {
    settings.algorithms[kind].assign(2, *network::parse_algorithm("ring"));
  }
  const auto some = run_workload(*workload, *topology, settings, {});
  ASSERT_TRUE(some) << some.error().text();
  EXPECT_EQ(some->answer.report.ranks.size(), 2u);
  EXPECT_EQ(workload->microbatches(), 4);
  // Of 4 microbatches every rank of the first stage sends one activation each, of the second one
  // gradient: 16 ranks x 4.
  EXPECT_EQ(some->count.messages, 64);
  WorkloadCount all;
  for (int32_t rank = 0; rank < 16; ++rank) {
    for (const graph::Node& node : workload->graph(rank).nodes) {
      ++all.nodes;
      all.collectives += node.type == graph::NodeType::kCollective;
    }
  }
  EXPECT_EQ(some->count.nodes, all.nodes);
  EXPECT_EQ(some->count.collectives, all.collectives);
  const auto other = network::Topology::create({{Block::kSwitch, 4, 50, 500}});
  EXPECT_FALSE(run_workload(*workload, *other, settings, {}));
}

TEST(DlrmRun, OneNpuComputesForAsLongAsTheOperationsOfADlrmTake) {
  // 6 x 57 M x 128 operations at 234 TFLOPS: 187.08 us; collectives of one take no time.
  const auto topology = network::Topology::create({{network::Block::kRing, 1}});
  SystemSettings settings;
  const auto ring = *network::parse_algorithm("ring");
  settings.algorithms[graph::CollectiveType::kAllReduce] = {ring};
  settings.algorithms[graph::CollectiveType::kAllToAll] = {ring};
  const auto workload = make_workload({*workload::dlrm_graph({})}, {}, *topology, settings);
  ASSERT_TRUE(workload) << workload.error().text();
  const auto answer = run_astra(*topology, settings, *workload, {}, true);
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_NEAR(static_cast<double>(answer->finish().ns), 187'077, 16);
}

}  // namespace
}  // namespace tombolo::astra
