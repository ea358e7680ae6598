// Three ways to the same answer: every message played, phases worked out as a whole, and one rank
// for each class. They must agree to the nanosecond on every rank, on random systems and programs,
// with stragglers and without. A failure prints the seed.
#include <gtest/gtest.h>

#include "base/random.h"
#include "predict/astra/astra_ledger.h"
#include "predict/astra/astra_run.h"
#include "support/seeds.h"

namespace tombolo::astra {
namespace {

using graph::CollectiveType;

class RandomSystem {
 public:
  explicit RandomSystem(uint64_t seed) : random_(Random(seed).stream("astra")) {
    const int64_t count = 1 + below(3);
    int32_t npus = 1;
    for (int64_t d = 0; d < count; ++d) {
      const int32_t size = npus <= 8 ? pick<int32_t>({2, 4, 8}) : 2;
      npus *= size;
      dimensions.push_back(
          {pick<network::Block>(
               {network::Block::kRing, network::Block::kFullyConnected, network::Block::kSwitch}),
           size, pick<double>({25, 50, 100, 200}), pick<double>({0, 50, 500})});
    }
    // Equal dimensions make events coincide, where the order of an instant decides.
    if (below(3) == 0) std::fill(dimensions.begin(), dimensions.end(), dimensions[0]);
    settings.order =
        pick<CollectiveOrder>({CollectiveOrder::kLastFirst, CollectiveOrder::kFirstFirst});
    settings.all_reduce_shape =
        pick<AllReduceShape>({AllReduceShape::kBaseline, AllReduceShape::kLocalBandwidthAware});
    settings.active_chunks = pick<int32_t>({1, 1, 2, 3});
    settings.splits = pick<int64_t>({1, 2, 4, 8});
    settings.endpoint_delay = pick<int64_t>({0, 1, 10, 25});
    settings.memory_bandwidth = pick<double>({0, 50, 1600, 3350});
    for (const CollectiveType kind : kKinds) {
      for (int64_t d = 0; d < count; ++d) {
        std::string name = pick<const char*>({"ring", "direct", "direct2", "halvingDoubling"});
        if (kind == CollectiveType::kAllToAll && name == "halvingDoubling") name = "ring";
        if (kind == CollectiveType::kAllReduce && below(6) == 0) name = "doubleBinaryTree";
        if (d == 0 && below(8) == 0) name = pick<const char*>({"oneRing", "oneDirect"});
        settings.algorithms[kind].push_back(*network::parse_algorithm(name));
      }
    }
    queues = pick<int32_t>({1, 1, 1, 2, 4});
    const int64_t nodes = 1 + below(6);
    for (int64_t id = 0; id < nodes; ++id) {
      graph::Node node;
      node.id = id;
      if (below(3) > 0) {
        node.type = graph::NodeType::kCollective;
        node.collective = kKinds[below(4)];
        node.comm_size = (1 + below(64)) * pick<int64_t>({1024, 16384, 65536});
      } else {
        node.duration = SimDuration{below(50) * 1000};
      }
      for (int64_t before = 0; before < id; ++before) {
        if (below(3) == 0) node.data_deps.push_back(before);
      }
      program.push_back(node);
    }
    stragglers = below(3) == 0;
    mixed = below(3) == 0;
    exchange = below(2) == 0;
  }

  // Themis, switches that reduce, and remote memory whose order of service nobody sees: an NPU's
  // own, or a pool that moves all at once.
  void add_more() {
    settings.dimension_order = pick<network::DimensionScheduling>(
        {network::DimensionScheduling::kBaseline, network::DimensionScheduling::kThemis});
    settings.chunk_choice = pick<network::ChunkChoice>(
        {network::ChunkChoice::kFirstCome, network::ChunkChoice::kSmallest});
    for (const CollectiveType kind :
         {CollectiveType::kAllReduce, CollectiveType::kAllGather, CollectiveType::kReduceScatter}) {
      for (size_t d = 0; d < dimensions.size(); ++d) {
        network::AlgorithmChoice& choice = settings.algorithms[kind][d];
        if (dimensions[d].block != network::Block::kSwitch || choice.one_dimension) continue;
        if (below(3) == 0) choice = *network::parse_algorithm("inSwitch");
      }
    }
    memory.type = network::MemoryExpansion::kPerNpu;
    memory.latency = pick<int64_t>({0, 100});
    memory.bandwidth = pick<int64_t>({10, 100});
    if (below(2) == 0) {
      memory.pool.emplace();
      memory.pool->shape = network::RingPool{1, 4, 100_GBps};
    }
    for (graph::Node& node : program) {
      if (node.type != graph::NodeType::kCompute || below(2) == 0) continue;
      node.type =
          pick<graph::NodeType>({graph::NodeType::kMemoryLoad, graph::NodeType::kMemoryStore});
      node.tensor_size = below(1 << 20);
    }
  }

  graph::Graphs graphs(int32_t npus) const {
    graph::Graphs out;
    for (int32_t rank = 0; rank < npus; ++rank) {
      out.push_back({rank, program});
      if (stragglers) {
        for (graph::Node& node : out.back().nodes) node.duration += SimDuration{rank % 3 * 1000};
      }
      if (mixed) add_groups_and_messages(out.back(), npus);
    }
    return out;
  }

  // Groups laid over their dimensions, in place of pairs: parts of some of them.
  void add_hierarchical_groups() {
    settings.groups = GroupShape::kHierarchical;
    mixed = true;
    for (const network::Dimension& dimension : dimensions) {
      parts_.push_back(pick<int32_t>({1, 2, dimension.npus, dimension.npus}));
    }
  }

  // Pairs of ranks, in either order, for half of the collectives.
  chakra::CommGroups groups(int32_t npus) const {
    chakra::CommGroups out;
    if (!parts_.empty()) {
      for (int32_t rank = 0; rank < npus; ++rank) out[group_of(rank)].push_back(rank);
      return out;
    }
    for (int32_t first = 0; first < npus; first += 2) {
      out[std::to_string(1 + first / 2)] = {first + first / 2 % 2, first + 1 - first / 2 % 2};
    }
    return out;
  }

  static constexpr CollectiveType kKinds[] = {
      CollectiveType::kAllReduce, CollectiveType::kAllGather, CollectiveType::kReduceScatter,
      CollectiveType::kAllToAll};
  std::vector<network::Dimension> dimensions;
  SystemSettings settings;
  network::MemoryExpansionFile memory;
  int32_t queues = 1;
  std::vector<graph::Node> program;
  bool stragglers = false;
  bool mixed = false;     // groups, and messages between neighbours
  bool exchange = false;  // these in pairs, else round a ring

 private:
  Random random_;

  // Along each dimension so many NPUs next to each other.
  std::vector<int32_t> parts_;

  std::string group_of(int32_t rank) const {
    if (parts_.empty()) return std::to_string(1 + rank / 2);
    int32_t group = 0, scale = 1;
    for (size_t d = 0; d < parts_.size(); ++d) {
      const int32_t size = dimensions[d].npus;
      group += rank % size / parts_[d] * scale;
      scale *= size / parts_[d];
      rank /= size;
    }
    return std::to_string(1 + group);
  }

  void add_groups_and_messages(graph::Graph& graph, int32_t npus) const {
    for (graph::Node& node : graph.nodes) {
      if (node.id % 2 == 0) node.details.edit().pg_name = group_of(graph.rank);
    }
    graph::Node send, receive;
    send.type = graph::NodeType::kSend;
    receive.type = graph::NodeType::kReceive;
    send.comm_size = receive.comm_size = 100'000;
    send.id = static_cast<int64_t>(graph.nodes.size());
    receive.id = send.id + 1;
    send.comm_peer = exchange ? graph.rank ^ 1 : (graph.rank + 1) % npus;
    receive.comm_peer = exchange ? graph.rank ^ 1 : (graph.rank + npus - 1) % npus;
    if (exchange || graph.rank % 2 == 1) receive.data_deps = {send.id};
    graph.nodes.push_back(send);
    graph.nodes.push_back(receive);
  }

  int64_t below(int64_t n) { return static_cast<int64_t>(random_.below(static_cast<uint64_t>(n))); }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int64_t>(values.size()))];
  }
};

// Observers change nothing, order of events included.
void unwatched_is_the_same(const network::Topology& topology, const RandomSystem& system,
                           const RankPrograms& workload, const MachineOptions& options,
                           const AstraAnswer& watched) {
  const auto unwatched = run_astra(topology, system.settings, workload, options, false);
  ASSERT_TRUE(unwatched);
  EXPECT_EQ(unwatched->report.fingerprint, watched.report.fingerprint);
}

struct Counts {
  int collapsed = 0, several = 0, finished = 0;
};

Counts expect_agreement(uint64_t seeds, bool more, bool laid_out = false) {
  Counts counts;
  const auto compare = [&](uint64_t seed) {
    RandomSystem system(seed);
    if (more) system.add_more();
    if (laid_out) system.add_hierarchical_groups();
    const auto topology = network::Topology::create(system.dimensions);
    ASSERT_TRUE(topology);
    const auto workload =
        make_workload(system.graphs(topology->npus()), system.groups(topology->npus()), *topology,
                      system.settings);
    ASSERT_TRUE(workload) << workload.error().text();
    MachineOptions whole, messages;
    whole.queues_per_dimension = messages.queues_per_dimension = system.queues;
    messages.whole_phases = false;
    const auto memory = network::ExpandedMemory::create(system.memory, topology->npus());
    ASSERT_TRUE(memory) << memory.error().text();
    whole.memory = messages.memory = &*memory;
    AstraLedger of_messages, of_phases, of_classes;
    const auto run = [&](MachineOptions options, AstraLedger& ledger, bool collapse) {
      options.observers = {&ledger};
      return run_astra(*topology, system.settings, *workload, options, collapse);
    };
    const auto played = run(messages, of_messages, false);
    const auto worked_out = run(whole, of_phases, false);
    const auto for_all = run(whole, of_classes, true);
    // Played message by message, ranks may come to different orders where events coincide, and then
    // wait for each other in a circle, as in ASTRA-sim. Else all ways end, or none.
    ASSERT_EQ(worked_out.has_value(), for_all.has_value()) << "seed " << seed;
    ASSERT_TRUE(!played || worked_out) << "seed " << seed;
    if (!played) return;
    ++counts.finished;
    counts.collapsed += for_all->collapsed();
    counts.several += for_all->collapsed() && for_all->report.ranks.size() > 1;
    for (int32_t r = 0; r < topology->npus(); ++r) {
      ASSERT_EQ(worked_out->rank(r).finish, played->rank(r).finish)
          << "seed " << seed << ", rank " << r;
      ASSERT_EQ(for_all->rank(r).finish, played->rank(r).finish)
          << "seed " << seed << ", rank " << r;
      // Every instant until the end has one cause, the same in all ways.
      const trace::ExposedTime& exposed = of_messages.exposed(r);
      ASSERT_EQ(exposed.total(), played->rank(r).finish - SimTime{}) << "seed " << seed;
      ASSERT_EQ(exposed, of_phases.exposed(r)) << "seed " << seed << ", rank " << r;
      ASSERT_EQ(exposed, of_classes.exposed(r)) << "seed " << seed << ", rank " << r;
    }
    // What phases say that they send is what their messages carry.
    ASSERT_EQ(of_messages.dimensions(), of_phases.dimensions()) << "seed " << seed;
    for (size_t d = 0; d < topology->dimensions(); ++d) {
      ASSERT_EQ(of_classes.dimensions()[d].bytes, of_phases.dimensions()[d].bytes)
          << "seed " << seed << ", dimension " << d;
    }
    unwatched_is_the_same(*topology, system, *workload, whole, *worked_out);
  };
  for (uint64_t seed = 1; seed <= seeds && !testing::Test::HasFatalFailure(); ++seed) compare(seed);
  return counts;
}

TEST(AstraWays, AgreeOnEveryRankOfRandomSystems) {
  const Counts counts = expect_agreement(300, false);
  EXPECT_GT(counts.finished, 270);
  EXPECT_GT(counts.collapsed, 80);
  EXPECT_GT(counts.several, 0);
  RecordProperty("collapsed", counts.collapsed);
  RecordProperty("several", counts.several);
}

TEST(AstraWays, AgreeWithMemoryThemisAndSwitchesThatReduce) {
  const Counts counts = expect_agreement(200, true);
  EXPECT_GT(counts.finished, 160);
  EXPECT_GT(counts.collapsed, 40);
}

TEST(AstraWays, AgreeWithHierarchicalGroups) {
  const Counts counts = expect_agreement(300, true, true);
  EXPECT_GT(counts.finished, 200);
  EXPECT_GT(counts.several, 10);
}

// Of messages that share links one rank of each class tells what all do, or every rank is simulated.
TEST(AstraWays, RanksThatAreAlikeShareLinksAlike) {
  int finished = 0, collapsed = 0, several = 0;
  for (uint64_t seed = 1; seed <= seeds(150, 600); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomSystem system(seed);
    if (seed % 2 == 0) system.add_more();
    system.add_hierarchical_groups();
    const auto topology = network::Topology::create(system.dimensions);
    const auto workload =
        make_workload(system.graphs(topology->npus()), system.groups(topology->npus()), *topology,
                      system.settings);
    ASSERT_TRUE(workload) << workload.error().text();
    MachineOptions options{.law = NetworkLaw::kFluid, .queues_per_dimension = system.queues};
    const auto memory = network::ExpandedMemory::create(system.memory, topology->npus());
    options.memory = &*memory;
    const auto all = run_astra(*topology, system.settings, *workload, options, false);
    const auto some = run_astra(*topology, system.settings, *workload, options, true);
    if (!all) continue;  // ranks that come to different orders wait for each other in a circle
    ASSERT_TRUE(some) << some.error().text();
    ++finished;
    collapsed += some->collapsed();
    several += some->collapsed() && some->report.ranks.size() > 1;
    for (int32_t r = 0; r < topology->npus(); ++r) {
      ASSERT_EQ(all->rank(r).finish, some->rank(r).finish) << "rank " << r;
      ASSERT_EQ(all->rank(r).communication.ns, some->rank(r).communication.ns) << "rank " << r;
    }
  }
  EXPECT_GT(finished, 100);
  EXPECT_GT(collapsed, 10);
  EXPECT_GT(several, 1);
}

// With the host at work and computations by roofline: the causes add up to the end, and what has no
// part in a rank's run has no time.
TEST(AstraWays, ExposedTimeAddsUpOnEveryRank) {
  int bound = 0, hosts = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    RandomSystem system(seed);
    const auto topology = network::Topology::create(system.dimensions);
    graph::Graphs graphs = system.graphs(topology->npus());
    for (graph::Graph& graph : graphs) {
      for (graph::Node& node : graph.nodes) {
        if (node.type != graph::NodeType::kCompute) continue;
        node.is_cpu_op = node.id % 3 == 1;
        node.num_ops = node.duration.ns * static_cast<int64_t>(1000 + seed);
        node.tensor_size = 1 + node.duration.ns * (node.id % 2 == 0 ? 2000 : 20);
      }
    }
    system.settings.roofline = true;
    system.settings.memory_bandwidth = 1000;
    system.settings.peak_performance = 2;
    const auto workload =
        make_workload(graphs, system.groups(topology->npus()), *topology, system.settings);
    ASSERT_TRUE(workload) << workload.error().text();
    AstraLedger ledger;
    MachineOptions options;
    options.observers = {&ledger};
    const auto answer = run_astra(*topology, system.settings, *workload, options, seed % 2 == 0);
    if (!answer) continue;
    for (int32_t r = 0; r < topology->npus(); ++r) {
      const trace::ExposedTime& exposed = ledger.exposed(r);
      const RankReport& report = answer->rank(r);
      ASSERT_EQ(exposed.total(), report.finish - SimTime{}) << "seed " << seed << ", rank " << r;
      ASSERT_EQ(exposed.compute + exposed.local_memory, report.accelerator) << "seed " << seed;
      ASSERT_LE(exposed.host, report.host) << "seed " << seed;
      ASSERT_LE(exposed.communication, report.communication) << "seed " << seed;
      ASSERT_EQ(exposed.remote_memory.ns, 0);
      for (const SimDuration part : {exposed.compute, exposed.local_memory, exposed.idle}) {
        ASSERT_GE(part.ns, 0) << "seed " << seed << ", rank " << r;
      }
      bound += exposed.local_memory.ns > 0;
      hosts += exposed.host.ns > 0;
    }
  }
  EXPECT_GT(bound, 100);
  EXPECT_GT(hosts, 100);
}

}  // namespace
}  // namespace tombolo::astra
