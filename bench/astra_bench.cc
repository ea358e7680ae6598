// How long do all-reduces on large systems take to simulate, and in how much memory?
//
//   astra_bench [--million]
//   astra_bench --laws
//
// The systems for which ASTRA-sim's cycles, time and memory were measured (commit 518bd513, two
// cores, quiet): its seconds and MiB stand beside ours, and the cycles must be equal. Every NPU is
// simulated, then one for all. --million adds a torus of 128 x 128 x 64 with every NPU simulated
// (1.7 GB). --laws asks the three laws of messages for the same all-reduces, with one and with
// four active chunks, every NPU simulated. One JSON line per question, of CPU time; peak_mib is
// that of the process so far, so questions come in order of their appetite. Whole process, files
// included: time tombolo astra.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstring>
#include <ctime>

#include "base/check.h"
#include "predict/astra/astra_run.h"

namespace {

using namespace tombolo;
using namespace tombolo::astra;
using graph::CollectiveType;
using network::Block;

struct Question {
  const char* name;
  std::vector<int32_t> sizes;
  Block block;
  const char* algorithm;
  int64_t bytes;
  int64_t splits;
  int64_t cycles;  // 0: not known
  double their_seconds, their_mib;
};

double peak_mib() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void ask(const Question& question, bool collapse) {
  std::vector<network::Dimension> dimensions;
  for (const int32_t size : question.sizes) dimensions.push_back({question.block, size, 50, 500});
  const auto topology = network::Topology::create(dimensions);
  SystemSettings settings;
  settings.all_reduce_shape = AllReduceShape::kLocalBandwidthAware;
  settings.splits = question.splits;
  settings.memory_bandwidth = 1600;
  settings.algorithms[CollectiveType::kAllReduce].assign(
      dimensions.size(), *network::parse_algorithm(question.algorithm));
  graph::Node node;
  node.type = graph::NodeType::kCollective;
  node.comm_size = question.bytes;
  const double begin = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  const auto workload = make_workload({{0, {node}}}, {}, *topology, settings);
  CHECK(workload, "{}", workload.error().text());
  const auto answer = run_astra(*topology, settings, *workload, {}, collapse);
  CHECK(answer, "{}", answer.error().text());
  const double seconds = static_cast<double>(std::clock()) / CLOCKS_PER_SEC - begin;
  const int64_t finish = answer->finish().ns;
  CHECK(question.cycles == 0 || finish == question.cycles, "{}: {} cycles, not {}", question.name,
        finish, question.cycles);
  fmt::print(
      "{{\"question\": \"{}\", \"npus\": {}, \"one_for_all\": {}, \"cycles\": {}, \"events\": {}, "
      "\"seconds\": {:.4f}, \"astra_sim_seconds\": {}, \"peak_mib\": {:.0f}, \"astra_sim_mib\": "
      "{}}}\n",
      question.name, topology->npus(), answer->collapsed(), finish, answer->report.events, seconds,
      question.their_seconds, peak_mib(), question.their_mib);
  std::fflush(stdout);
}

// The laws of messages side by side: ring all-reduces of 1 GiB at 50 GB/s and 500 ns in 4 chunks.
void compare_laws(const std::vector<int32_t>& sizes, int32_t active_chunks) {
  std::vector<network::Dimension> dimensions;
  for (const int32_t size : sizes) dimensions.push_back({Block::kRing, size, 50, 500});
  const auto topology = network::Topology::create(dimensions);
  SystemSettings settings;
  settings.splits = 4;
  settings.active_chunks = active_chunks;
  settings.memory_bandwidth = 1600;
  settings.algorithms[CollectiveType::kAllReduce].assign(dimensions.size(),
                                                         *network::parse_algorithm("ring"));
  graph::Node node;
  node.type = graph::NodeType::kCollective;
  node.comm_size = 1 << 30;
  const auto workload = make_workload({{0, {node}}}, {}, *topology, settings);
  CHECK(workload, "{}", workload.error().text());
  for (const NetworkLaw law :
       {NetworkLaw::kAnalytical, NetworkLaw::kCongestion, NetworkLaw::kFluid}) {
    MachineOptions machine;
    machine.law = law;
    const double begin = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
    const auto answer = run_astra(*topology, settings, *workload, machine, false);
    const double seconds = static_cast<double>(std::clock()) / CLOCKS_PER_SEC - begin;
    CHECK(answer, "{}", answer.error().text());
    fmt::print(
        "{{\"question\": \"law of messages\", \"network\": \"{}\", \"active_chunks\": {}, "
        "\"law\": \"{}\", \"cycles\": {}, \"events\": {}, \"seconds\": {:.3f}}}\n",
        topology->text(), active_chunks, to_name(law), answer->finish().ns, answer->report.events,
        seconds);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--laws") == 0) {
    for (const std::vector<int32_t>& sizes : {std::vector<int32_t>{8}, {8, 8, 8}, {16, 16, 16}}) {
      for (const int32_t active : {1, 4}) compare_laws(sizes, active);
    }
    return 0;
  }
  constexpr int64_t kMebibyte = 1 << 20, kGibibyte = 1 << 30;
  const Question questions[] = {
      {"torus 8x8x8, 1 GiB, 64 chunks",
       {8, 8, 8},
       Block::kRing,
       "ring",
       kGibibyte,
       64,
       37218432,
       2.6,
       86},
      {"switch of 4096, 1 GiB",
       {4096},
       Block::kSwitch,
       "halvingDoubling",
       kGibibyte,
       1,
       41020605,
       18.9,
       5453},
      {"ring of 4096, 1 MiB", {4096}, Block::kRing, "ring", kMebibyte, 1, 4209670, 51.8, 5450},
      {"torus 16x16x16, 1 GiB, 4 chunks",
       {16, 16, 16},
       Block::kRing,
       "ring",
       kGibibyte,
       4,
       39448580,
       3.98,
       192},
      {"torus 16x16x16, 1 GiB, 64 chunks",
       {16, 16, 16},
       Block::kRing,
       "ring",
       kGibibyte,
       64,
       40366400,
       80.6,
       642},
      {"torus 16x32x32, 1 GiB, 4 chunks",
       {16, 32, 32},
       Block::kRing,
       "ring",
       kGibibyte,
       4,
       39448580,
       63.3,
       921},
      {"torus 32x32x32, 1 GiB, 4 chunks",
       {32, 32, 32},
       Block::kRing,
       "ring",
       kGibibyte,
       4,
       40826584,
       147.7,
       1875},
  };
  const Question million = {"torus 128x128x64, 1 GiB, 4 chunks",
                            {128, 128, 64},
                            Block::kRing,
                            "ring",
                            kGibibyte,
                            4,
                            0,
                            0,
                            0};
  for (const bool collapse : {true, false}) {
    for (const Question& question : questions) ask(question, collapse);
  }
  ask(million, true);
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--million") == 0) ask(million, false);
  }
}
