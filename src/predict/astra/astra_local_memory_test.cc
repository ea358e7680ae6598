// What an NPU's memory holds, worked out by hand.
#include "predict/astra/astra_local_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/json.h"
#include "predict/astra/astra_run.h"
#include "spec/chakra/chakra.h"

namespace tombolo::astra {
namespace {

using graph::Node;

Node compute_on(int64_t id, int64_t ns, std::vector<std::string> inputs,
                std::vector<std::string> outputs) {
  Node node;
  node.id = id;
  node.name = fmt::format("node{}", id);
  node.duration = SimDuration{ns};
  if (id > 0) node.data_deps = {id - 1};
  node.details.edit().inputs = std::move(inputs);
  node.details.edit().outputs = std::move(outputs);
  return node;
}

// w is there from the start; a is made from it, b from both, c from b and nobody reads it:
//   node 0, 0 to 100: w -> a     node 1, to 150: w, a -> b     node 2, to 350: b -> c
//   w 400 bytes 0 to 150, a 100 bytes 0 to 150, b 50 bytes 100 to 350, c 300 bytes from 150
// So 500 bytes from 0, 550 from 100, 350 from 150, 300 from 350.
graph::Graph chain(int32_t rank = 0) {
  return {rank,
          {compute_on(0, 100, {"w", "400", "nothing", "0"}, {"a", "100"}),
           compute_on(1, 50, {"w", "400", "a", "100"}, {"b", "50"}),
           compute_on(2, 200, {"b", "50"}, {"c", "300"})}};
}

Result<AstraAnswer> run(const graph::Graphs& graphs) {
  SystemSettings settings;
  settings.track_memory = true;
  const network::Topology topology =
      *network::Topology::create({{network::Block::kRing, 2, 50, 500}});
  const RankPrograms workload = TRY(make_workload(graphs, {}, topology, settings));
  return run_astra(topology, settings, workload, {}, true);
}

TEST(AstraLocalMemory, KnowsThePeak) {
  const auto answer = run({chain()});
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_TRUE(answer->collapsed());
  EXPECT_EQ(answer->local_memory->peak(0), 550);
  EXPECT_EQ(answer->local_memory->peak(1), 550);
  EXPECT_EQ(answer->local_memory->simulated(), std::vector<int32_t>{0});
}

TEST(AstraLocalMemory, TellsRanksApartByTheirTensors) {
  graph::Graph more = chain(1);
  more.nodes[1].details.edit().outputs = {"b", "70"};
  const auto answer = run({chain(), more});
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_EQ(answer->local_memory->peak(0), 550);
  EXPECT_EQ(answer->local_memory->peak(1), 570);
}

TEST(AstraLocalMemory, DrawsLivesAndTheirSum) {
  const auto answer = run({chain()});
  ASSERT_TRUE(answer) << answer.error().text();
  const std::string text = to_json(answer->local_memory->trace(0), -1);
  // a lives for 0.15 us.
  EXPECT_NE(text.find(R"({"name":"a","cat":"tensorLifetime","ph":"E","ts":0.15,"pid":1000000,)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"("cat":"tensorWrite","ph":"B","ts":0.1,"pid":0,)"), std::string::npos)
      << text;
  EXPECT_NE(text.find(R"("node_name":"node1","node_id":1)"), std::string::npos) << text;
}

TEST(AstraLocalMemory, DrawsOneWriterOfEachTensor) {
  // w is there from the start. Node 1 writes a again, node 2 writes w, which do not count.
  const auto answer =
      run({{0,
            {compute_on(0, 100, {"w", "400"}, {"a", "100"}), compute_on(1, 50, {}, {"a", "100"}),
             compute_on(2, 50, {"a", "100"}, {"w", "400"})}}});
  ASSERT_TRUE(answer) << answer.error().text();
  std::vector<std::string> writes;
  const Value trace = answer->local_memory->trace(0);
  for (const Value& event : *trace.find("traceEvents")->get<Value::Array>()) {
    if (*event.find("cat")->get<std::string>() != "tensorWrite") continue;
    writes.push_back(*event.find("name")->get<std::string>() + " " +
                     *event.find("args")->find("node_name")->get<std::string>() +
                     fmt::format(" {:.0f}", *event.find("ts")->get<double>() * 1000));
  }
  EXPECT_EQ(writes, (std::vector<std::string>{"w UNDEFINED 0", "w UNDEFINED 10", "a node0 0",
                                              "a node0 100"}));
}

TEST(AstraLocalMemory, SaysWhatItCannotRead) {
  const auto error = [](std::vector<std::string> inputs) {
    const auto answer = run({{0, {compute_on(0, 1, std::move(inputs), {})}}});
    EXPECT_FALSE(answer);
    return answer ? "" : answer.error().text();
  };
  EXPECT_NE(error({"w"}).find("node 0: its inputs are not names and bytes"), std::string::npos);
  EXPECT_NE(error({"w", "many"}).find("names and bytes"), std::string::npos);
  EXPECT_NE(error({"w", "-1"}).find("names and bytes"), std::string::npos);
  EXPECT_NE(error({}).find("no node of the workload names"), std::string::npos);
}

// Traces may list no tensors, as ASTRA-sim takes them; what is made without lists is refused above.
TEST(AstraLocalMemory, IsEmptyWhereTracesNameNoTensors) {
  const std::string prefix = fmt::format("{}no_tensors.{}", ::testing::TempDir(), getpid());
  auto writer = chakra::ChakraWriter::create(prefix + ".0.et", chakra::our_metadata());
  ASSERT_TRUE(writer && writer->write(compute_on(0, 1000, {}, {}), 0) && writer->commit());
  SystemSettings settings;
  settings.track_memory = true;
  const auto topology = *network::Topology::create({{network::Block::kRing, 2, 50, 500}});
  const auto workload = read_workload({.prefix = prefix, .spmd = true}, topology, settings);
  std::filesystem::remove(prefix + ".0.et");
  ASSERT_TRUE(workload) << workload.error().text();
  const auto answer = run_astra(topology, settings, *workload, {}, true);
  ASSERT_TRUE(answer) << answer.error().text();
  EXPECT_EQ(answer->finish().ns, 1000);
  EXPECT_EQ(answer->local_memory->peak(1), 0);
}

TEST(AstraLocalMemory, BelongsToAnNpu) {
  const auto answer = run({chain()});
  ASSERT_TRUE(answer);
  EXPECT_DEATH(answer->local_memory->peak(2), "the memory of NPU 2 of 2");
}

}  // namespace
}  // namespace tombolo::astra
