// A training step small enough to be joined by hand: two threads, two streams, one all-reduce.
#include "spec/chakra/pytorch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "spec/chakra/chakra.h"
#include "spec/chakra/comm_groups.h"

namespace tombolo::chakra {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr std::string_view kTrace = R"json({
 "schema": "1.0.2-chakra.0.0.4", "pid": 7, "time": "now", "start_ts": 0, "finish_ts": 9,
 "nodes": [
  {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1,
   "inputs": {"values": [], "shapes": [], "types": []}, "attrs": [{"name": "rf_id", "value": 0}]},
  {"id": 2, "name": "## process_group:init ##", "ctrl_deps": 1,
   "inputs": {"values": ["[{\"pg_name\": \"4\", \"ranks\": [0, 2]}]"], "shapes": [], "types": []},
   "attrs": [{"name": "rf_id", "value": 9}, {"name": "tid", "value": 1}]},
  {"id": 3, "name": "aten::linear", "ctrl_deps": 1, "inputs": {"values": [3]},
   "attrs": [{"name": "rf_id", "value": 10}, {"name": "tid", "value": 1}]},
  {"id": 4, "name": "aten::mm", "ctrl_deps": 3, "inputs": {"values": []},
   "attrs": [{"name": "rf_id", "value": 11}, {"name": "tid", "value": 1}]},
  {"id": 5, "name": "c10d::allreduce_", "ctrl_deps": 1,
   "inputs": {"values": [[[8, 9, 0, 256, 4, "cuda:0"], [8, 9, 0, 44, 2, "cuda:0"]], "<Object>", 3]},
   "attrs": [{"name": "rf_id", "value": 12}, {"name": "tid", "value": 2}]},
  {"id": 6, "name": "record_param_comms", "ctrl_deps": 5, "inputs": {"values": []},
   "attrs": [{"name": "rf_id", "value": 13}, {"name": "tid", "value": 2},
             {"name": "pg_name", "value": "4"}]},
  {"id": 7, "name": "aten::item", "ctrl_deps": 1, "inputs": {"values": []},
   "attrs": [{"name": "rf_id", "value": 14}, {"name": "tid", "value": 1}]},
  {"id": 8, "name": "aten::add", "ctrl_deps": 1, "inputs": {"values": []},
   "attrs": [{"name": "rf_id", "value": 15}, {"name": "tid", "value": 1}]}
 ]})json";

// Microseconds. Thread 1: linear 100-140 with mm 110-125.5 inside, item 200-260 that waits 210-250,
// add 261-270. Thread 2: allreduce_ 2000-2050 around record_param_comms 2010-2020. Stream 7: gemm
// 130-180, copy 205-230; stream 20: the all-reduce 2100-2400.
constexpr std::string_view kKineto = R"json({"traceEvents": [
 {"ph": "M", "name": "process_name", "pid": 7},
 {"ph": "X", "cat": "cpu_op", "name": "aten::linear", "tid": 51, "ts": 100, "dur": 40,
  "args": {"External id": 1, "Record function id": 10}},
 {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "tid": 51, "ts": 110, "dur": 15.5,
  "args": {"External id": 2, "Record function id": 11}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 51, "ts": 120, "dur": 4,
  "args": {"correlation": 900, "External id": 2}},
 {"ph": "X", "cat": "kernel", "name": "gemm", "tid": 7, "ts": 130, "dur": 50,
  "args": {"correlation": 900, "device": 0, "stream": 7}},
 {"ph": "X", "cat": "cpu_op", "name": "aten::item", "tid": 51, "ts": 200, "dur": 60,
  "args": {"Record function id": 14}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "tid": 51, "ts": 201, "dur": 3,
  "args": {"correlation": 901}},
 {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH", "tid": 7, "ts": 205, "dur": 25,
  "args": {"correlation": 901, "device": 0, "stream": 7}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "tid": 51, "ts": 210, "dur": 40,
  "args": {"correlation": 902}},
 {"ph": "X", "cat": "cpu_op", "name": "aten::add", "tid": 51, "ts": 261, "dur": 9,
  "args": {"Record function id": 15}},
 {"ph": "X", "cat": "cpu_op", "name": "c10d::allreduce_", "tid": 52, "ts": 2000, "dur": 50,
  "args": {"Record function id": 12}},
 {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "tid": 52, "ts": 2010, "dur": 10,
  "args": {"Record function id": 13}},
 {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "tid": 52, "ts": 2012, "dur": 2,
  "args": {"correlation": 903}},
 {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "tid": 20,
  "ts": 2100, "dur": 300, "args": {"correlation": 903, "device": 0, "stream": 20}},
 {"ph": "X", "cat": "kernel", "name": "of another process", "tid": 20, "ts": 2500, "dur": 1,
  "args": {"correlation": 999, "device": 0, "stream": 20}}
]})json";

PytorchTrace joined() {
  auto trace = join_pytorch(parse_json(kTrace, "et.json").value(), "et.json",
                            parse_json(kKineto, "k.json").value(), "k.json");
  EXPECT_TRUE(trace) << trace.error().text();
  return *trace;
}
const ChakraNode& node_of(const PytorchTrace& trace, uint64_t id) { return trace.nodes.at(id - 1); }
int64_t duration(const PytorchTrace& trace, uint64_t id) {
  return to_node(node_of(trace, id)).value().duration.ns;
}

// linear 40 - 15.5, mm 15.5, item 60 - 40 of waiting, allreduce_ 50 - 10.
TEST(Pytorch, HostNodesLastAsLongAsTheyThemselvesWork) {
  const PytorchTrace trace = joined();
  EXPECT_EQ(duration(trace, 3), 24'500);
  EXPECT_EQ(duration(trace, 4), 15'500);
  EXPECT_EQ(duration(trace, 7), 20'000);
  EXPECT_EQ(duration(trace, 5), 40'000);
  EXPECT_EQ(duration(trace, 1), 0);
}

TEST(Pytorch, HostNodesFollowTheirThreadAndAfterAPauseTheOthers) {
  const PytorchTrace trace = joined();
  EXPECT_THAT(node_of(trace, 4).data_deps, ElementsAre(3));
  EXPECT_THAT(node_of(trace, 4).ctrl_deps, ElementsAre(3));
  EXPECT_THAT(node_of(trace, 7).data_deps, ElementsAre(4));
  EXPECT_THAT(node_of(trace, 5).data_deps, ElementsAre(8));  // add ended last before 2000
  EXPECT_THAT(node_of(trace, 6).data_deps, ElementsAre(5));
}

TEST(Pytorch, DeviceNodesFollowTheirLauncherAndTheirStream) {
  const PytorchTrace trace = joined();
  ASSERT_EQ(trace.nodes.size(), 11u);
  EXPECT_EQ(node_of(trace, 9).name, "gemm");
  EXPECT_THAT(node_of(trace, 9).data_deps, ElementsAre(4));
  EXPECT_EQ(duration(trace, 9), 50'000);
  EXPECT_THAT(node_of(trace, 10).data_deps, UnorderedElementsAre(7, 9));
  EXPECT_THAT(node_of(trace, 11).data_deps, ElementsAre(6));
}

// Before PyTorch wrote record function ids it gave them as external ids.
TEST(Pytorch, JoinsByExternalIdWhereThereIsNoOther) {
  std::string old(kKineto);
  // What was external is no id of a function.
  for (const char* external : {"\"External id\": 1, ", "\"External id\": 2, "})
    old.erase(old.find(external), std::string_view(external).size());
  for (size_t at = 0; (at = old.find("Record function id", at)) != std::string::npos;)
    old.replace(at, std::string_view("Record function id").size(), "External id");
  old.replace(old.find("\"correlation\": 900, \"External id\": 2"),
              std::string_view("\"correlation\": 900, \"External id\": 2").size(),
              "\"correlation\": 900, \"External id\": 11");
  const auto join = [](const std::string& kineto) {
    return join_pytorch(parse_json(kTrace, "et.json").value(), "et.json",
                        parse_json(kineto, "k.json").value(), "k.json");
  };
  const auto by_external = join(old);
  ASSERT_TRUE(by_external) << by_external.error().text();
  EXPECT_EQ(by_external->nodes, joined().nodes);
  EXPECT_THAT(by_external->notes,
              Contains(HasSubstr("k.json has no \"Record function id\": operators are joined by")));
  // An id of something else is no operator's.
  std::string other = old;
  for (size_t at = 0; (at = other.find("\"cpu_op\", \"name\": \"", at)) != std::string::npos; ++at)
    other.insert(at + std::string_view("\"cpu_op\", \"name\": \"").size(), "other_");
  EXPECT_FALSE(join(other));
}

// item waited until 250, when gemm and the copy were done; add is next.
TEST(Pytorch, WhoComesAfterAWaitDependsOnTheDevice) {
  EXPECT_THAT(node_of(joined(), 8).data_deps, UnorderedElementsAre(7, 10));
}

// 256 * 4 + 44 * 2 = 1112 bytes in the group that record_param_comms names.
TEST(Pytorch, KernelsOfNcclCommunicate) {
  const graph::Node node = to_node(node_of(joined(), 11)).value();
  EXPECT_EQ(node.type, graph::NodeType::kCollective);
  EXPECT_EQ(node.collective, graph::CollectiveType::kAllReduce);
  EXPECT_EQ(node.comm_size, 1112);
  EXPECT_EQ(node.details->pg_name, "4");
  EXPECT_FALSE(node.is_cpu_op);
  EXPECT_EQ(process_groups_of(to_node(node_of(joined(), 2)).value(), "et").value(),
            (CommGroups{{"4", {0, 2}}}));
}

TEST(Pytorch, TheResultIsSoundAndSaysWhatItLeavesOut) {
  const PytorchTrace trace = joined();
  Outline outline;
  for (const ChakraNode& node : trace.nodes) outline.add(to_node(node).value());
  EXPECT_THAT(outline.examine().value().bad, IsEmpty());
  EXPECT_THAT(trace.notes, ElementsAre(HasSubstr("2 of 8 operators have no event"),
                                       HasSubstr("1 kernels of k.json were launched by no")));
}

TEST(Pytorch, WhatCannotBeJoinedIsTold) {
  const auto complaint = [](std::string_view trace, std::string_view kineto) {
    const auto joined = join_pytorch(parse_json(trace, "et.json").value(), "et.json",
                                     parse_json(kineto, "k.json").value(), "k.json");
    return joined ? "sound" : joined.error().message;
  };
  EXPECT_THAT(complaint("{}", kKineto), HasSubstr("et.json: is no execution trace of PyTorch"));
  EXPECT_THAT(complaint(kTrace, "{}"), HasSubstr("k.json: has no traceEvents"));
  EXPECT_THAT(complaint(kTrace, R"({"traceEvents": []})"),
              HasSubstr("have no recorded function in common"));
  EXPECT_THAT(complaint(R"({"schema": "1", "nodes": [{"id": 1}, {"id": 1}]})", kKineto),
              "et.json: two nodes have the id 1");
  EXPECT_THAT(complaint(R"({"schema": "1", "nodes": [{}]})", kKineto), HasSubstr("nodes[0]"));
  EXPECT_THAT(
      complaint(
          kTrace,
          R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": -1}]})"),
      HasSubstr("k.json: event 0 (\"k\") has no time that makes sense"));
  EXPECT_THAT(read_pytorch("et.json", "").error().hint, HasSubstr("--kineto"));
}

TEST(TraceFormat, IsToldByItsFirstBytes) {
  EXPECT_EQ(format_of(kTrace), TraceFormat::kPytorch);
  EXPECT_EQ(format_of("\x07\x0a\x05"), TraceFormat::kChakra);
  EXPECT_EQ(format_of("{\"version\": \"1\"}"), TraceFormat::kChakra);
  EXPECT_EQ(format_of("{\n}{\"id\": \"1\"}"), TraceFormat::kChakra);
  EXPECT_EQ(format_of("{\"workload_graph\": []}"), TraceFormat::kChakra);
  EXPECT_EQ(format_of("{\"tombolo_plan\": 1}"), TraceFormat::kOther);
  EXPECT_EQ(format_of("[job]\nname = \"x\"\n"), TraceFormat::kOther);
  EXPECT_EQ(format_of(""), TraceFormat::kOther);
}

}  // namespace
}  // namespace tombolo::chakra
