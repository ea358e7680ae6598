// Files of the format's own bytes, counted by hand; what others write; what is broken; and what we
// write ourselves.
#include "spec/chakra/chakra.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "spec/chakra/chakra_binary.h"
#include "spec/chakra/chakra_json.h"
#include "support/folder_test.h"

namespace tombolo::chakra {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Rank 1 of astra-sim's example microbenchmarks/all_reduce/8npus_1MB (MIT), 83 bytes.
const std::string kAllReduce =
    "\x07\x0a\x05"s + "0.0.4" +                            // frame of 7 bytes: field 1, the version
    "\x4a"s +                                              // frame of 74 bytes
    "\x08\x01" +                                           // field 1, id: 1
    "\x12\x14"s + "all_reduce_8npus_1MB" +                 // field 2, name: 20 bytes
    "\x18\x07" +                                           // field 3, type: 7
    "\x52\x0e\x0a\x09"s + "is_cpu_op" + "\xd8\x01\x00"s +  // field 27, bool: false
    "\x52\x0d\x0a\x09"s + "comm_type" + "\x48\x00"s +      // field 9, int64: 0
    "\x52\x0f\x0a\x09"s + "comm_size" + "\x48\x80\x80\x40"s;  // 2^20 = 64 * 2^14

// A frame around a message of fewer than 128 bytes.
std::string frame(const std::string& message) {
  return std::string(1, static_cast<char>(message.size())) + message;
}
const std::string kMetadata = frame("\x0a\x05"s + "0.0.4");

std::string complaint(const std::string& bytes, const ChakraReadOptions& options = {}) {
  const auto graph = parse_chakra(bytes, "t.et", options);
  return graph ? "sound" : graph.error().message;
}

TEST(Chakra, ReadsTheBytesOfAnAllReduce) {
  ASSERT_EQ(kAllReduce.size(), 83u);
  const auto graph = parse_chakra(kAllReduce, "t.et", {.rank = 1});
  ASSERT_TRUE(graph) << graph.error().text();
  const graph::Node expected{.id = 1,
                             .name = "all_reduce_8npus_1MB",
                             .type = graph::NodeType::kCollective,
                             .collective = graph::CollectiveType::kAllReduce,
                             .comm_size = 1 << 20};
  EXPECT_EQ(graph->rank, 1);
  EXPECT_THAT(graph->nodes, ElementsAre(expected));
}

TEST(Chakra, WritesThoseBytesAgain) {
  auto reader = ChakraReader::over(kAllReduce, "t.et");
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->metadata().version, "0.0.4");
  std::string message;
  encode(reader->metadata(), message);
  std::string again = frame(message);
  ChakraNode node;
  ASSERT_TRUE(reader->next(node).value());
  message.clear();
  encode(node, message);
  again += frame(message);
  EXPECT_EQ(again, kAllReduce);
  EXPECT_FALSE(reader->next(node).value());
}

// Dependencies packed (one field 5 of two bytes) and not (two fields 5), nodes in any order.
TEST(Chakra, DependenciesMayBePackedOrNot) {
  const std::string a = frame("\x18\x04"s);  // id 0 and an empty name are left out
  const std::string b = frame("\x08\x01\x18\x04"s);
  const std::string packed = frame("\x08\x02\x18\x04\x2a\x02\x01\x00"s);
  const std::string single = frame("\x08\x03\x18\x04\x28\x02\x28\x00\x20\x01"s);
  const auto graph = parse_chakra(kMetadata + single + packed + b + a, "t.et");
  ASSERT_TRUE(graph) << graph.error().text();
  ASSERT_EQ(graph->nodes.size(), 4u);
  EXPECT_THAT(graph->nodes[2].data_deps, ElementsAre(0, 1));
  EXPECT_THAT(graph->nodes[3].data_deps, ElementsAre(0, 2));
  EXPECT_THAT(graph->nodes[3].ctrl_deps, ElementsAre(1));
}

// The same comm_size as each kind of number. 300 = 0xac 0x02 as a varint; zigzag 600 = 0xd8 0x04.
TEST(Chakra, NumbersOfAnyKindMeanTheSame) {
  const std::vector<std::string> kinds = {
      "\x19"s + "\0\0\0\0\0\xc0\x72\x40"s,  // 3 double: 300 = 1.171875 * 2^8
      "\x2d\0\0\x96\x43"s,                  // 5 float
      "\x38\xac\x02",                       // 7 int32
      "\x48\xac\x02",                       // 9 int64
      "\x58\xac\x02",                       // 11 uint32
      "\x68\xac\x02",                       // 13 uint64
      "\x78\xd8\x04",                       // 15 sint32
      "\x88\x01\xd8\x04",                   // 17 sint64
      "\x9d\x01\x2c\x01\0\0"s,              // 19 fixed32
      "\xa9\x01\x2c\x01\0\0\0\0\0\0"s,      // 21 fixed64
      "\xbd\x01\x2c\x01\0\0"s,              // 23 sfixed32
      "\xc9\x01\x2c\x01\0\0\0\0\0\0"s,      // 25 sfixed64
  };
  for (const std::string& kind : kinds) {
    const std::string attribute = "\x0a\x09"s + "comm_size" + kind;
    const std::string node = "\x18\x05\x52"s + static_cast<char>(attribute.size()) + attribute;
    const auto graph = parse_chakra(kMetadata + frame(node), "t.et");
    ASSERT_TRUE(graph) << graph.error().text();
    EXPECT_EQ(graph->nodes[0].comm_size, 300) << testing::PrintToString(kind);
  }
}

// Field 11 (of a later schema) in a node, field 3 in the metadata, and metadata of the first
// schema.
TEST(Chakra, OtherSchemasAreRead) {
  const std::string later = frame("\x0a\x05"s + "0.0.4" + "\x18\x05");
  EXPECT_EQ(complaint(later + frame("\x18\x04\x5a\x03"s + "new")), "sound");
  const std::string first = frame("\x0a\x0b\x0a\x03"s + "pid" + "\xea\x01\x03" + "abc");
  const auto reader = ChakraReader::over(first, "t.et");
  ASSERT_TRUE(reader) << reader.error().text();
  ASSERT_EQ(reader->metadata().attributes.size(), 1u);
  EXPECT_EQ(reader->metadata().attributes[0].name, "pid");
  EXPECT_THAT(reader->metadata().attributes[0].texts, ElementsAre("abc"));
}

TEST(Chakra, WhatIsBrokenIsToldInOneLine) {
  const std::string node = frame("\x08\x05\x12\x01x\x18\x04"s);
  EXPECT_THAT(complaint(""), "t.et: is empty");
  EXPECT_THAT(complaint(kAllReduce.substr(0, 82)),
              "t.et: message 1: byte 8: a length of 74 bytes, but the file has 73 more");
  EXPECT_THAT(complaint(kMetadata + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
              "t.et: message 1: byte 8: a length of more than 5 bytes");
  EXPECT_THAT(complaint(kMetadata + "\xff\xff\xff\xff\x0f"),
              HasSubstr("a length of 4294967295 bytes; the limit is 67108864"));
  EXPECT_THAT(complaint(kMetadata + "\x80"s), HasSubstr("the file ends inside a length"));
  // A name that claims 2^64 - 1 bytes.
  EXPECT_THAT(complaint(kMetadata + frame("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s)),
              HasSubstr("field 2 says 18446744073709551615 bytes, but 0 are left"));
  EXPECT_THAT(complaint(kMetadata + frame("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"s)),
              HasSubstr("a number of more than 64 bits"));
  EXPECT_THAT(complaint(kMetadata + frame("\x0b"s)), HasSubstr("field 1 is of kind 3"));
  EXPECT_THAT(complaint(kMetadata + frame("\x18\x09"s)),
              HasSubstr("node 0 (\"\"): it is of type 9, which Chakra does not know"));
  EXPECT_THAT(complaint(kMetadata + node + node), "t.et: two nodes have the id 5");
  EXPECT_THAT(complaint(kMetadata + frame("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s)),
              "t.et: node 18446744073709551615 (\"\"): its id is beyond 63 bits");
  EXPECT_THAT(complaint("[job]\nname = \"x\"\n"), HasSubstr("t.et: "));
}

TEST(Chakra, EdgesThatCannotBeAreToldOrDropped) {
  const auto node = [](char id, const std::string& deps) {
    return frame("\x08"s + id + "\x18\x04\x2a" + static_cast<char>(deps.size()) + deps);
  };
  const std::string missing = kMetadata + node(1, "\x09") + node(2, "\x01");
  EXPECT_EQ(complaint(missing), "t.et: node 1 depends on node 9, which does not exist");
  EXPECT_EQ(complaint(kMetadata + node(1, "\x01")), "t.et: node 1 depends on itself");
  const std::string cycle = kMetadata + node(1, "\x03") + node(2, "\x01") + node(3, "\x02");
  EXPECT_EQ(complaint(cycle), "t.et: nodes wait for each other: 1 -> 3 -> 2 -> 1");

  std::vector<std::string> dropped;
  const std::string all = kMetadata + node(3, "\x02\x03\x09") + node(2, "\x01") + node(1, "\x03");
  EXPECT_EQ(
      complaint(all),
      "t.et: node 3 depends on node 9, which does not exist (and 2 more edges that cannot be)");
  const auto repaired = parse_chakra(all, "t.et", {.repair = true, .repaired = &dropped});
  ASSERT_TRUE(repaired) << repaired.error().text();
  EXPECT_THAT(dropped, ElementsAre("node 2 depends on node 1, which waits for it",
                                   "node 3 depends on itself",
                                   "node 3 depends on node 9, which does not exist"));
  EXPECT_THAT(repaired->nodes[0].data_deps, ElementsAre(3));
  EXPECT_THAT(repaired->nodes[1].data_deps, ElementsAre());
  EXPECT_THAT(repaired->nodes[2].data_deps, ElementsAre(2));
}

// Everything that a Node can say of a file.
std::vector<graph::Node> all_sorts() {
  std::vector<graph::Node> nodes = {
      {.id = 0, .name = "metadata", .type = graph::NodeType::kMetadata},
      {.id = 1, .type = graph::NodeType::kInvalid, .ctrl_deps = {0}},
      {.id = 2,
       .type = graph::NodeType::kMemoryLoad,
       .data_deps = {0},
       .tensor_size = int64_t{1} << 40},
      {.id = 3, .type = graph::NodeType::kMemoryStore, .tensor_size = 8},
      {.id = 5,
       .name = "F",
       .duration = {1'234'567},
       .delay = {7},
       .data_deps = {2, 3},
       .num_ops = 99},
      {.id = 6, .name = "cpu", .is_cpu_op = true, .duration = {2'000}},
      {.id = 7,
       .type = graph::NodeType::kSend,
       .comm_size = 10,
       .comm_peer = 4,
       .comm_priority = 3,
       .comm_tag = int64_t{1} << 50},
      {.id = 8, .type = graph::NodeType::kReceive, .comm_size = 11, .comm_peer = 5, .comm_tag = 1},
      {.id = 9,
       .type = graph::NodeType::kCollective,
       .collective = graph::CollectiveType::kBarrier,
       .details =
           graph::NodeDetails{
               .pg_name = "12", .involved_dims = {1, 0, 1}, .inputs = {}, .outputs = {}}},
  };
  nodes[0].details.edit().inputs = {"['[{}]']"};
  return nodes;
}

using ChakraFiles = FolderTest;

TEST_F(ChakraFiles, WhatIsWrittenIsReadBack) {
  for (const ChakraForm form : {ChakraForm::kProtobuf, ChakraForm::kJson}) {
    const std::string file = folder_ + "/a.et";
    auto writer = ChakraWriter::create(file, our_metadata(), form);
    ASSERT_TRUE(writer) << writer.error().text();
    for (const graph::Node& node : all_sorts()) ASSERT_TRUE(writer->write(node, 2));
    ASSERT_TRUE(writer->commit());
    const auto graph = read_chakra(file, {.rank = 2});
    ASSERT_TRUE(graph) << graph.error().text();
    EXPECT_EQ(graph->nodes, all_sorts());
  }
}

TEST_F(ChakraFiles, NothingAppearsBeforeItIsWhole) {
  {
    auto writer = ChakraWriter::create(folder_ + "/a.et", our_metadata());
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write(all_sorts()[0], 0));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

// Ranks 0 and 1 sum among themselves, then all three do.
TEST_F(ChakraFiles, GroupsOfRanksGetNames) {
  const auto sum = [](int64_t id, std::vector<int32_t> group) {
    return graph::Node{
        .id = id, .type = graph::NodeType::kCollective, .comm_group = std::move(group)};
  };
  const graph::Graphs graphs = {{0, {sum(0, {0, 1}), sum(1, {0, 1, 2})}},
                                {1, {sum(0, {0, 1}), sum(1, {0, 1, 2})}},
                                {2, {sum(1, {0, 1, 2})}}};
  const auto groups = write_chakra(folder_ + "/w", graphs);
  ASSERT_TRUE(groups) << groups.error().text();
  EXPECT_EQ(*groups, (CommGroups{{"1", {0, 1}}}));
  EXPECT_EQ(parse_comm_groups(to_json_text(*groups), "g.json").value(), *groups);
  const auto second = read_chakra(folder_ + "/w.1.et");
  ASSERT_TRUE(second) << second.error().text();
  EXPECT_EQ(second->nodes[0].details->pg_name, "1");
  EXPECT_EQ(second->nodes[1].details->pg_name, "");
}

// By hand: header, one stored block (length 83 and its complement), CRC-32 and length.
TEST_F(ChakraFiles, GzippedFilesAreRead) {
  std::string gzip = "\x1f\x8b\x08\0\0\0\0\0\0\xff"s + "\x01\x53\0\xac\xff"s + kAllReduce;
  uint32_t crc = 0xffffffff;
  for (const char c : kAllReduce) {
    crc ^= static_cast<uint8_t>(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  crc = ~crc;
  for (int i = 0; i < 4; ++i) gzip.push_back(static_cast<char>(crc >> (8 * i)));
  gzip += "\x53\0\0\0"s;
  ASSERT_TRUE(write_file(folder_ + "/a.et.gz", gzip));
  const auto graph = read_chakra(folder_ + "/a.et.gz");
  ASSERT_TRUE(graph) << graph.error().text();
  EXPECT_EQ(graph->nodes[0].comm_size, 1 << 20);

  ASSERT_TRUE(write_file(folder_ + "/cut.et.gz", gzip.substr(0, 60)));
  const auto cut = read_chakra(folder_ + "/cut.et.gz");
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().message, HasSubstr("cut.et.gz: "));
}

TEST_F(ChakraFiles, MissingFilesAndFoldersAreTold) {
  EXPECT_THAT(read_chakra(folder_ + "/none.et").error().message,
              HasSubstr("none.et: cannot open it"));
  EXPECT_THAT(read_chakra(folder_).error().message, HasSubstr("is a folder"));
}

// The traces of other tools, where this machine has them: each of our writings is theirs, byte by
// byte.
TEST(Chakra, FilesOfOthersComeBackTheSame) {
  const char* shared = std::getenv("TOMBOLO_SHARED_DATA");
  if (!shared) GTEST_SKIP() << "TOMBOLO_SHARED_DATA names no folder with chakra/";
  int files = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(shared) + "/chakra")) {
    if (entry.path().extension() != ".et") continue;
    const std::string bytes = read_file(entry.path()).value();
    auto reader = ChakraReader::over(bytes, entry.path());
    ASSERT_TRUE(reader) << reader.error().text();
    std::string again;
    std::string message;
    const auto put = [&](const auto& what) {
      message.clear();
      encode(what, message);
      for (size_t n = message.size(); again.push_back(static_cast<char>(n & 0x7f)), n >= 0x80;) {
        again.back() = static_cast<char>(again.back() | 0x80);
        n >>= 7;
      }
      again += message;
    };
    put(reader->metadata());
    ChakraNode node;
    for (;;) {
      const auto more = reader->next(node);
      ASSERT_TRUE(more) << more.error().text();
      if (!*more) break;
      put(node);
      ASSERT_TRUE(to_node(node, true));
      const std::string line = to_json_line(node).value();
      const auto back = node_from_json(parse_json(line, "line").value(), "line");
      ASSERT_TRUE(back) << back.error().text();
      EXPECT_EQ(*back, node);
    }
    EXPECT_EQ(again, bytes) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST(Chakra, WritesWhatCanBeReadAgain) {
  std::string out;
  ChakraNode node;
  node.attributes = {{.name = "pg_name", .has_value = true, .kind = AttributeKind::kString}};
  node.attributes[0].numbers = {7};
  EXPECT_DEATH(encode(node, out), "attribute \"pg_name\" has 1 numbers and 0 texts");
  EXPECT_DEATH(to_message({.id = 5, .delay = {-2}}, 0), "node 5 waits for -2 ns");
  EXPECT_DEATH(to_message({.id = 5}, -1), "node 5 of rank -1");
}

TEST(Chakra, ReadsTheTraceOfARank) {
  EXPECT_DEATH((void)parse_chakra(kAllReduce, "t.et", {.rank = -1}),
               "t.et is the trace of rank -1");
}

using ChakraOnDisk = FolderTest;

TEST_F(ChakraOnDisk, IsWrittenPerRankUntilItIsCommitted) {
  const std::string path = at("committed.et");
  auto writer = ChakraWriter::create(path, our_metadata());
  ASSERT_TRUE(writer && writer->commit());
  EXPECT_DEATH((void)writer->write(ChakraNode{}), "committed.et, which is committed");
  EXPECT_DEATH((void)write_chakra(at("run"), {{1, {}}}), "graph 0 is of rank 1");
}

}  // namespace
}  // namespace tombolo::chakra
