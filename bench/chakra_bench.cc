// How fast are Chakra files written, read and judged, and in how much memory?
//
//   chakra_bench [--nodes 10000000] [--folder /tmp]
//
// Writes a file of that many nodes (layers of computations, sends, receives and collectives with
// names of about 20 letters), reads it as messages, as Nodes, and as a whole graph if it has at
// most two million nodes. Checks what it read. One JSON line per question; peak_mib is that of the
// process so far, so questions come in order of their appetite.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "spec/chakra/chakra.h"
#include "spec/chakra/statistics.h"

namespace {

using namespace tombolo;
using namespace tombolo::chakra;
using namespace tombolo::graph;

Node example(int64_t id) {
  Node node{
      .id = id, .name = fmt::format("layer.{}.operation", id), .duration = {id % 1000 * 1000}};
  if (id > 0) node.data_deps = {id - 1};
  if (id > 4) node.ctrl_deps = {id - 5};
  if (id % 8 == 5) {
    node.type = NodeType::kCollective;
    node.collective = CollectiveType::kAllGather;
    node.details.edit().pg_name = "5";
  } else if (id % 8 == 6 || id % 8 == 7) {
    node.type = id % 8 == 6 ? NodeType::kSend : NodeType::kReceive;
    node.comm_peer = 1;
    node.comm_tag = id;
  }
  if (node.type == NodeType::kCompute) {
    node.num_ops = 1'000'000;
    node.tensor_size = 4096;
  } else {
    node.comm_size = 1 << 20;
  }
  return node;
}

// What the process may be charged for.
double peak_mib() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

template <typename Question>
void ask(const char* what, int64_t nodes, Question question) {
  const auto begin = std::chrono::steady_clock::now();
  question();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  fmt::print(
      "{{\"question\": \"{}\", \"nodes\": {}, \"seconds\": {:.3f}, \"nodes_per_second\": "
      "{:.0f}, \"peak_mib\": {:.1f}}}\n",
      what, nodes, seconds.count(), static_cast<double>(nodes) / seconds.count(), peak_mib());
  std::fflush(stdout);
}

template <typename T>
T must(Result<T> result) {
  CHECK(result, "{}", result.error().text());
  return std::move(*result);
}

}  // namespace

int main(int argc, char** argv) {
  int64_t nodes = 1'000'000;
  std::string folder = std::filesystem::temp_directory_path();
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--nodes") == 0) nodes = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--folder") == 0) folder = argv[i + 1];
  }
  const std::string path = fmt::format("{}/chakra_bench.{}.et", folder, getpid());

  ask("write", nodes, [&] {
    ChakraWriter writer = must(ChakraWriter::create(path, our_metadata()));
    for (int64_t id = 0; id < nodes; ++id) {
      const Status status = writer.write(example(id), 0);
      CHECK(status, "{}", status.error().text());
    }
    const Status status = writer.commit();
    CHECK(status, "{}", status.error().text());
  });
  fmt::print("{{\"question\": \"file\", \"bytes_per_node\": {:.1f}}}\n",
             static_cast<double>(std::filesystem::file_size(path)) / static_cast<double>(nodes));
  ask("read as messages", nodes, [&] {
    ChakraReader reader = must(ChakraReader::open(path));
    ChakraNode message;
    uint64_t next = 0;
    while (must(reader.next(message))) CHECK(message.id == next++, "node {}", message.id);
    CHECK(next == static_cast<uint64_t>(nodes), "{} of {} nodes", next, nodes);
  });
  ask("read as nodes", nodes, [&] {
    ChakraReader reader = must(ChakraReader::open(path));
    int64_t next = 0;
    while (const auto node = must(reader.next())) {
      CHECK(node->id == next, "node {}", node->id);
      if (next % 4096 == 0) CHECK(*node == example(next), "node {} differs", next);
      ++next;
    }
    CHECK(next == nodes, "{} of {} nodes", next, nodes);
  });
  ask("statistics", nodes, [&] {
    ChakraReader reader = must(ChakraReader::open(path));
    StatisticsBuilder builder;
    while (const auto node = must(reader.next())) builder.add(*node);
    // A chain through all of them.
    const auto count = must(builder.finish(path)).critical_nodes.size();
    CHECK(count == static_cast<size_t>(nodes), "{} of {} on the path", count, nodes);
  });
  if (nodes <= 2'000'000) {
    ask("read as a graph", nodes, [&] {
      const Graph graph = must(read_chakra(path));
      CHECK(graph.nodes.size() == static_cast<size_t>(nodes), "{} nodes", graph.nodes.size());
    });
  }
  std::filesystem::remove(path);
}
