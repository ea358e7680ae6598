// ASTRA-sim's own answers, equal to the cycle. data/astra-sim/README.md says where they come from.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>

#include "base/file.h"
#include "predict/astra/astra_run.h"

namespace tombolo::astra {
namespace {

using graph::CollectiveType;

const std::string kData = TOMBOLO_DATA "/astra-sim/";

constexpr const char* kRing8 =
    "topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n";

std::string system_file(const char* order, int splits, int memory, const std::string& more = {}) {
  return fmt::format(
      R"({{"scheduling-policy": "{}", "endpoint-delay": 10, "active-chunks-per-dimension": 1,
          "preferred-dataset-splits": {}, "all-reduce-implementation": ["ring"],
          "all-gather-implementation": ["ring"], "reduce-scatter-implementation": ["ring"],
          "all-to-all-implementation": ["ring"], "collective-optimization": "localBWAware",
          "local-mem-bw": {}, "boost-mode": 0{}}})",
      order, splits, memory, more);
}

std::vector<std::string> split(const std::string& line, char separator) {
  std::vector<std::string> out(1);
  for (const char c : line) {
    if (c == separator) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

std::vector<int64_t> finishes(const Result<AstraAnswer>& answer) {
  std::vector<int64_t> out;
  if (!answer) {
    ADD_FAILURE() << answer.error().text();
    return out;
  }
  for (int32_t r = 0; r < answer->npus; ++r) out.push_back(answer->rank(r).finish.ns);
  return out;
}

// Both laws, and the law analytical as a whole, message by message and with one rank for all.
struct Way {
  const char* name;
  MachineOptions machine;
  bool collapse;
};
std::vector<Way> ways() {
  MachineOptions whole, messages, congestion;
  messages.whole_phases = false;
  congestion.law = NetworkLaw::kCongestion;
  return {{"whole phases", whole, false},
          {"one rank for all", whole, true},
          {"every message", messages, false},
          {"congestion", congestion, false}};
}

Result<AstraAnswer> answer_of_files(const WorkloadFiles& files, const std::string& network,
                                    const std::string& system, const Way& way) {
  const network::Topology topology = TRY(network::parse_topology(network, "network.yml"));
  const SystemSettings settings = TRY(parse_system(system, "system.json"));
  const RankPrograms workload = TRY(read_workload(files, topology, settings));
  return run_astra(topology, settings, workload, way.machine, way.collapse);
}

TEST(AstraGolden, EveryMicroBenchmarkTakesItsCyclesUnderEitherLaw) {
  const std::pair<const char*, int64_t> expected[] = {{"all_reduce", 64440},
                                                      {"all_gather", 151016},
                                                      {"reduce_scatter", 33080},
                                                      {"all_to_all", 125480}};
  for (const auto& [name, cycles] : expected) {
    WorkloadFiles files;
    files.prefix = fmt::format("{}micro/{}-8npus-1MB/{}", kData, name, name);
    for (const bool spmd : {false, true}) {
      files.spmd = spmd;
      for (const Way& way : ways()) {
        EXPECT_EQ(finishes(answer_of_files(files, kRing8, system_file("LIFO", 4, 1600), way)),
                  std::vector<int64_t>(8, cycles))
            << name << ", " << way.name << (spmd ? ", one file for all" : "");
      }
    }
  }
}

TEST(AstraGolden, ACollectiveThatIsSpelledOutTakesItsCycles) {
  WorkloadFiles files;
  files.prefix = kData + "micro/all_reduce-8npus-1MB/all_reduce";
  const std::string custom = fmt::format(
      R"(, "all-reduce-implementation-custom": ["{}custom-ring/custom_allreduce"])", kData);
  for (const Way& way : ways()) {
    EXPECT_EQ(finishes(answer_of_files(files, kRing8, system_file("FIFO", 1, 50, custom), way)),
              std::vector<int64_t>(8, 90174))
        << way.name;
  }
}

TEST(AstraGolden, ATransformerStepTakesItsCyclesOnEveryRank) {
  AstraOptions options;
  const std::string folder = kData + "stg-dense-tp2-pp2/";
  options.workload.prefix = folder + "workload";
  options.workload.comm_groups = folder + "comm_groups.json";
  options.system = folder + "astra-sim-system.json";
  options.network = folder + "astra-sim-network.yml";
  const std::vector<int64_t> unaware = {897498, 897498, 515566, 515566};
  const std::vector<int64_t> aware = {903801, 904301, 521869, 522369};
  for (const Way& way : ways()) {
    options.machine = way.machine;
    options.collapse = way.collapse;
    EXPECT_EQ(finishes(run_astra(options)),
              way.machine.law == NetworkLaw::kCongestion ? aware : unaware)
        << way.name;
  }
}

// A row of expected_collectives.csv as what would stand in the files.
struct Row {
  network::Topology topology;
  SystemSettings settings;
  graph::Graph graph;
  int64_t latest = 0, earliest = 0;
};

template <typename T>
T number(const std::string& text) {
  T out{};
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

Result<Row> read_row(const std::string& line) {
  const std::vector<std::string> cell = split(line, ',');
  std::vector<network::Dimension> dimensions;
  for (const std::string& block : split(cell[2], '_')) {
    const size_t d = dimensions.size();
    dimensions.push_back(
        {*from_name<network::Block>(block), number<int32_t>(split(cell[3], '_')[d]),
         number<double>(split(cell[4], '_')[d]), number<double>(split(cell[5], '_')[d])});
  }
  Row row{TRY(network::Topology::create(dimensions)),
          {},
          {},
          number<int64_t>(cell[13]),
          number<int64_t>(cell[14])};
  const CollectiveType kind = cell[0] == "ar"   ? CollectiveType::kAllReduce
                              : cell[0] == "ag" ? CollectiveType::kAllGather
                              : cell[0] == "rs" ? CollectiveType::kReduceScatter
                                                : CollectiveType::kAllToAll;
  for (const std::string& name : split(cell[6], '_')) {
    row.settings.algorithms[kind].push_back(*network::parse_algorithm(name));
  }
  row.settings.splits = number<int64_t>(cell[7]);
  row.settings.active_chunks = number<int32_t>(cell[8]);
  row.settings.endpoint_delay = number<int64_t>(cell[9]);
  row.settings.memory_bandwidth = number<double>(cell[10]);
  row.settings.order = *from_name<CollectiveOrder>(cell[11]);
  row.settings.all_reduce_shape = *from_name<AllReduceShape>(cell[12]);
  graph::Node node;
  node.type = graph::NodeType::kCollective;
  node.collective = kind;
  node.comm_size = number<int64_t>(cell[1]);
  row.graph.nodes.push_back(node);
  return row;
}

TEST(AstraGolden, SixtyCollectivesTakeTheirCycles) {
  const auto text = read_file(kData + "expected_collectives.csv");
  ASSERT_TRUE(text) << text.error().text();
  int rows = 0;
  for (const std::string& line : split(*text, '\n')) {
    if (line.empty() || line[0] == '#' || line.starts_with("collective")) continue;
    ++rows;
    const auto row = read_row(line);
    ASSERT_TRUE(row) << line << "\n" << row.error().text();
    const auto workload = make_workload({row->graph}, {}, row->topology, row->settings);
    ASSERT_TRUE(workload) << workload.error().text();
    for (const Way& way : ways()) {
      if (way.machine.law == NetworkLaw::kCongestion) continue;  // not what the file holds
      const std::vector<int64_t> ours =
          finishes(run_astra(row->topology, row->settings, *workload, way.machine, way.collapse));
      ASSERT_FALSE(ours.empty()) << line;
      EXPECT_EQ(*std::max_element(ours.begin(), ours.end()), row->latest)
          << way.name << ": " << line;
      EXPECT_EQ(*std::min_element(ours.begin(), ours.end()), row->earliest)
          << way.name << ": " << line;
    }
  }
  EXPECT_EQ(rows, 60);
}

// An all-reduce of 1 GiB, all dimensions alike in what is not listed.
struct Measured {
  std::vector<network::Dimension> dimensions;
  std::vector<const char*> algorithms;
  int32_t active_chunks;
  int64_t splits;
  double memory;
  NetworkLaw law;
  double cycles, tolerance;
};

void expect_cycles(const Measured& measured) {
  const auto topology = network::Topology::create(measured.dimensions);
  ASSERT_TRUE(topology);
  SystemSettings settings;
  settings.all_reduce_shape = AllReduceShape::kLocalBandwidthAware;
  settings.active_chunks = measured.active_chunks;
  settings.splits = measured.splits;
  settings.memory_bandwidth = measured.memory;
  for (const char* name : measured.algorithms) {
    settings.algorithms[CollectiveType::kAllReduce].push_back(*network::parse_algorithm(name));
  }
  graph::Node node;
  node.type = graph::NodeType::kCollective;
  node.comm_size = 1 << 30;
  const auto workload = make_workload({{0, {node}}}, {}, *topology, settings);
  ASSERT_TRUE(workload);
  MachineOptions machine;
  machine.law = measured.law;
  const auto answer = run_astra(*topology, settings, *workload, machine, true);
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_NEAR(static_cast<double>(answer->finish().ns), measured.cycles, measured.tolerance)
      << topology->text() << ", " << measured.algorithms[0];
}

// The systems of table III of the ASTRA-sim 2.0 paper, as today's ASTRA-sim answers for them: 64
// chunks, no latency, memory without cost. Dimension 1 with halving-doubling and with the ring.
TEST(AstraGolden, TheSystemsOfTableThreeTakeTheirCycles) {
  struct Row {
    int32_t first, last;
    double halving_doubling, ring;
  };
  for (const Row& row :
       {Row{2, 4, 4393136, 4393136}, Row{2, 32, 4393136, 4393136}, Row{4, 4, 2213448, 2213468},
        Row{8, 4, 1755008, 1760128}, Row{16, 4, 1881216, 1894400}}) {
    using network::Block;
    const std::vector<network::Dimension> dimensions = {{Block::kRing, row.first, 1000, 0},
                                                        {Block::kFullyConnected, 8, 200.0 / 7, 0},
                                                        {Block::kRing, 8, 100, 0},
                                                        {Block::kSwitch, row.last, 50, 0}};
    for (const auto& [first, cycles] :
         {std::pair("halvingDoubling", row.halving_doubling), std::pair("ring", row.ring)}) {
      expect_cycles({dimensions,
                     {first, "direct", "ring", "halvingDoubling"},
                     1,
                     64,
                     1e8,
                     NetworkLaw::kAnalytical,
                     cycles,
                     0});
    }
  }
}

// Eight NPUs, 50 GB/s, no latency; ASTRA-sim's answers to a hundredth of a millisecond, under
// either law. More active chunks get more bandwidth than there is, unless links have queues.
TEST(AstraGolden, EitherLawHasItsOwnIdeaOfActiveChunks) {
  struct Row {
    network::Block block;
    const char* algorithm;
    int32_t active_chunks;
    int64_t splits;
    double unaware_ms, aware_ms;
  };
  using network::Block;
  for (const Row& row :
       {Row{Block::kRing, "ring", 1, 4, 36.76, 36.76},
        Row{Block::kRing, "ring", 2, 4, 18.38, 35.00}, Row{Block::kRing, "ring", 4, 4, 9.19, 35.00},
        Row{Block::kFullyConnected, "direct", 1, 4, 5.25, 5.25},
        Row{Block::kSwitch, "direct", 1, 4, 5.25, 40.25},
        Row{Block::kSwitch, "ring", 1, 4, 36.76, 71.76},
        Row{Block::kFullyConnected, "doubleBinaryTree", 1, 1, 130.07, 130.07}}) {
    for (const NetworkLaw law : {NetworkLaw::kAnalytical, NetworkLaw::kCongestion}) {
      const double ms = law == NetworkLaw::kAnalytical ? row.unaware_ms : row.aware_ms;
      expect_cycles({{{row.block, 8, 50, 0}},
                     {row.algorithm},
                     row.active_chunks,
                     row.splits,
                     1600,
                     law,
                     ms * 1e6,
                     5500});
    }
  }
}

// Law in closed form, of one dimension with the ring: docs/laws/analytical_network.md.
//   all-reduce s (2(n-1) T + 3(n-1) M + 10 (2(n-1) + 1)), T = floor(500 + m/B), M = floor(m/W)
TEST(AstraGolden, ARingFollowsItsClosedForm) {
  for (const int64_t n : {4, 8, 16}) {
    for (const int64_t splits : {1, 4}) {
      const int64_t bytes = 1 << 20;
      const double bandwidth = 50 * 1.073741824, memory = 1600;
      const auto steps = [&](int64_t m, int64_t links, int64_t reductions, int64_t buses) {
        const auto transfer = static_cast<int64_t>(500 + static_cast<double>(m) / bandwidth);
        const auto read = static_cast<int64_t>(static_cast<double>(m) / memory);
        return splits * (links * transfer + 3 * reductions * read + 10 * buses);
      };
      const int64_t m = bytes / splits / n;
      const std::pair<CollectiveType, int64_t> expected[] = {
          {CollectiveType::kAllReduce, steps(m, 2 * (n - 1), n - 1, 2 * (n - 1) + 1)},
          {CollectiveType::kReduceScatter, steps(m, n - 1, n - 1, n)},
          {CollectiveType::kAllGather, steps(bytes / splits, n - 1, 0, n)},
          {CollectiveType::kAllToAll, steps(m, n * (n - 1) / 2, 0, n * (n - 1) / 2 + 1)}};
      const auto topology =
          network::Topology::create({{network::Block::kRing, static_cast<int32_t>(n), 50, 500}});
      const auto settings =
          parse_system(system_file("LIFO", static_cast<int>(splits), 1600), "system.json");
      ASSERT_TRUE(topology && settings);
      for (const auto& [kind, cycles] : expected) {
        graph::Node node;
        node.type = graph::NodeType::kCollective;
        node.collective = kind;
        node.comm_size = bytes;
        const auto workload = make_workload({{0, {node}}}, {}, *topology, *settings);
        ASSERT_TRUE(workload);
        for (const Way& way : ways()) {
          EXPECT_EQ(finishes(run_astra(*topology, *settings, *workload, way.machine, way.collapse)),
                    std::vector<int64_t>(static_cast<size_t>(n), cycles))
              << to_name(kind) << " on " << n << ", " << way.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tombolo::astra
