// JSON in both dialects: what others write, what we write, and what is refused.
#include "spec/chakra/chakra_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "spec/chakra/chakra.h"

namespace tombolo::chakra {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// As chakra_jsonizer prints it: no comma and no line end between objects.
constexpr std::string_view kJsonizer = R"({
  "version": "0.0.4"
}{
  "id": "1",
  "name": "sum",
  "type": "COMM_COLL_NODE",
  "ctrlDeps": ["2"],
  "durationMicros": "3",
  "attr": [
    {"name": "is_cpu_op", "boolVal": false},
    {"name": "comm_type", "int64Val": "2"},
    {"name": "comm_size", "int64Val": "1048576"},
    {"name": "involved_dim", "boolList": {"values": [true, false]}}
  ]
}{
  "id": "2",
  "type": "COMP_NODE"
})";

TEST(ChakraJson, WhatTheJsonizerPrintsIsRead) {
  const auto graph = parse_chakra(kJsonizer, "t.json");
  ASSERT_TRUE(graph) << graph.error().text();
  ASSERT_EQ(graph->nodes.size(), 2u);
  const graph::Node& sum = graph->nodes[0];
  EXPECT_EQ(sum.collective, graph::CollectiveType::kAllGather);
  EXPECT_EQ(sum.comm_size, 1 << 20);
  EXPECT_EQ(sum.duration.ns, 3000);
  EXPECT_THAT(sum.ctrl_deps, ElementsAre(2));
  EXPECT_THAT(sum.details->involved_dims, ElementsAre(1, 0));
}

// The keys of mlcommons/chakra's tests/data/json_trace, with an attribute of each sort.
TEST(ChakraJson, AWorkloadGraphIsRead) {
  const auto graph = parse_chakra(R"({
    "workload_graph": [
      {"Id": 216, "Name": "aten::add", "NodeType": 4, "ctrlDeps": [], "data_deps": [],
       "runtime": 318, "is_cpu_op": true, "num_ops": 5},
      {"Id": 217, "Name": "]}", "NodeType": 7, "ctrlDeps": [216], "data_deps": [216],
       "runtime": 28, "is_cpu_op": false, "comm_type": 0, "comm_size": 64, "pg_name": "0"}
    ],
    "workload_name": "w", "ngpus": 8, "soc": "s"
})",
                                  "t.json");
  ASSERT_TRUE(graph) << graph.error().text();
  ASSERT_EQ(graph->nodes.size(), 2u);
  EXPECT_EQ(graph->nodes[0].duration.ns, 318'000);
  EXPECT_TRUE(graph->nodes[0].is_cpu_op);
  EXPECT_EQ(graph->nodes[0].num_ops, 5);
  EXPECT_EQ(graph->nodes[1].name, "]}");
  EXPECT_EQ(graph->nodes[1].comm_size, 64);
  EXPECT_EQ(graph->nodes[1].details->pg_name, "0");
}

// Each kind at its ends: what is written is read back as the same message.
TEST(ChakraJson, EveryKindOfAttributeSurvives) {
  const auto attribute = [](AttributeKind kind, bool is_list, std::vector<uint64_t> numbers) {
    return Attribute{"a", "doc", true, is_list, kind, std::move(numbers), {}};
  };
  using enum AttributeKind;
  ChakraNode node;
  node.id = UINT64_MAX;
  node.name = "\"quoted\"\n\xc3\xa9";
  node.type = 99;
  node.data_deps = {0, UINT64_MAX};
  node.inputs = IoInfo{"v", "", "t"};
  node.outputs.emplace();
  const uint64_t infinity = 0x7ff0000000000000;
  const uint64_t nan = 0x7ff8000000000000;
  const uint64_t tenth = 0x3fb99999a0000000;  // the float next to 0.1
  node.attributes = {attribute(kDouble, true, {0x3fb999999999999a, infinity, nan, 1ull << 63}),
                     attribute(kFloat, false, {tenth}),
                     attribute(kInt32, false, {static_cast<uint64_t>(int64_t{INT32_MIN})}),
                     attribute(kInt64, true, {1ull << 63, INT64_MAX}),
                     attribute(kUint32, false, {UINT32_MAX}),
                     attribute(kUint64, false, {UINT64_MAX}),
                     attribute(kFixed64, true, {}),
                     attribute(kBool, true, {1, 0}),
                     {"s", "", true, false, kString, {}, {""}},
                     {"l", "", true, true, kString, {}, {"x", ""}},
                     {"b", "", true, true, kBytes, {}, {std::string("\0\xff", 2), "abc", "", "y"}},
                     {"nothing", "", false, false, kInt64, {}, {}}};
  const std::string line = to_json_line(node).value();
  const auto back = node_from_json(parse_json(line, "line").value(), "line");
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(*back, node) << line;
  EXPECT_EQ(to_json_line(*back).value(), line);
}

std::string json_complaint(std::string_view node) {
  const std::string text = "{} " + std::string(node);
  const auto graph = parse_chakra(text, "t.json");
  return graph ? "sound" : graph.error().message;
}

TEST(ChakraJson, WhatIsBrokenIsToldInOneLine) {
  EXPECT_EQ(json_complaint(R"({"id": 1, "type": 4})"), "sound");
  EXPECT_THAT(json_complaint(R"({"id": -1})"),
              "t.json: message 1: id: is beyond what uint64 holds");
  EXPECT_THAT(json_complaint(R"({"id": "18446744073709551616"})"),
              "t.json: message 1: id: wanted an integer, found a text");
  EXPECT_THAT(json_complaint(R"({"weight": 1})"), "t.json: message 1: a node has no member weight");
  EXPECT_THAT(json_complaint(R"({"type": "NODE"})"), HasSubstr("type: Chakra does not know NODE"));
  EXPECT_THAT(json_complaint(R"({"attr": [{"int65Val": 1}]})"),
              HasSubstr("attr: has no member int65Val"));
  EXPECT_THAT(json_complaint(R"({"attr": [{"int32Val": 2147483648}]})"),
              HasSubstr("int32Val: is beyond what int32 holds"));
  EXPECT_THAT(json_complaint(R"({"name": "x)"), HasSubstr("it ends inside the object"));
  EXPECT_THAT(json_complaint("7"), HasSubstr("byte 3: an object was expected"));
  EXPECT_THAT(json_complaint(R"({"name": x})"), HasSubstr("t.json: message 1"));
  EXPECT_THAT(json_complaint("{\"a\":" + std::string(100000, '[')), HasSubstr("t.json: message 1"));
}

TEST(ChakraJson, WhatIsNotUtf8StaysBinary) {
  ChakraNode node;
  for (const char* bad : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    node.name = bad;
    ASSERT_FALSE(to_json_line(node));
    EXPECT_THAT(to_json_line(node).error().message, HasSubstr("is not UTF-8"));
  }
}

// 123 bytes of metadata begin with the byte of a brace.
TEST(ChakraJson, ABinaryFileMayBeginWithABrace) {
  ChakraMetadata metadata;
  metadata.version = std::string(121, 'v');
  const std::string bytes = "{\x0a\x79" + metadata.version;
  const auto reader = ChakraReader::over(bytes, "t.et");
  ASSERT_TRUE(reader) << reader.error().text();
  EXPECT_EQ(reader->metadata(), metadata);
}

TEST(ChakraJson, EntersAListOfNodesOnce) {
  ByteSource source = ByteSource::over(R"({"workload_graph": [{"Id": 1}]})");
  JsonSplitter splitter(source);
  EXPECT_TRUE(splitter.begins_workload_graph());
  EXPECT_DEATH(splitter.begins_workload_graph(), "asked behind byte 20, where nothing begins");
}

TEST(ChakraJson, WritesWholeAttributes) {
  ChakraNode node;
  node.attributes = {{.name = "num_ops", .has_value = true}};
  EXPECT_DEATH((void)to_json_line(node), "attribute \"num_ops\" has 0 numbers and 0 texts");
}

}  // namespace
}  // namespace tombolo::chakra
