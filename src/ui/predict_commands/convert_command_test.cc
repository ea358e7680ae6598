// Chakra traces through the command: forms, drawings, numbers, and what is refused or repaired.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/json.h"
#include "spec/chakra/chakra.h"
#include "support/folder_test.h"
#include "ui/predict_commands/predict_commands.h"

namespace tombolo::predict_commands {
namespace {

using chakra::ChakraForm;
using graph::Node;
using ::testing::HasSubstr;

class ConvertChakra : public FolderTest {
 protected:
  void write(const std::string& name, const std::vector<Node>& nodes) const {
    auto writer = chakra::ChakraWriter::create(at(name), chakra::our_metadata());
    ASSERT_TRUE(writer);
    for (const Node& node : nodes) ASSERT_TRUE(writer->write(node, 0));
    ASSERT_TRUE(writer->commit());
  }

  // What the command prints, or its error.
  std::string convert_to(ConvertOptions options) const {
    options.input = at(options.input);
    if (!options.out.empty()) options.out = at(options.out);
    std::ostringstream out;
    const Status status = convert(options, out);
    return status ? out.str() : status.error().text();
  }
};

const std::vector<Node> kSound = {{.id = 1, .name = "F", .duration = {5000}},
                                  {.id = 2,
                                   .name = "sum",
                                   .type = graph::NodeType::kCollective,
                                   .comm_size = 64,
                                   .data_deps = {1}}};
// 3 waits for 4 and 4 for 3; 5 for itself and for 9, which does not exist.
const std::vector<Node> kUnsound = {
    {.id = 3, .data_deps = {4}}, {.id = 4, .ctrl_deps = {3}}, {.id = 5, .data_deps = {3, 5, 9}}};

TEST_F(ConvertChakra, ThereAndBackIsTheSameFile) {
  write("a.et", kSound);
  EXPECT_EQ(convert_to({.input = "a.et", .to = "chakra-json", .out = "a.json"}), "");
  EXPECT_THAT(read_file(at("a.json")).value(), HasSubstr(R"("type":"COMM_COLL_NODE")"));
  EXPECT_EQ(convert_to({.input = "a.json", .to = "chakra", .out = "b.et"}), "");
  EXPECT_EQ(read_file(at("b.et")).value(), read_file(at("a.et")).value());
}

TEST_F(ConvertChakra, WhatIsUnsoundIsRefusedOrRepaired) {
  write("bad.et", kUnsound);
  const std::string refused = convert_to({.input = "bad.et", .to = "chakra", .out = "b.et"});
  EXPECT_THAT(refused, HasSubstr("bad.et: node 5 depends on node 9, which does not exist"));
  EXPECT_THAT(refused, HasSubstr("--repair"));
  EXPECT_FALSE(std::filesystem::exists(at("b.et")));
  EXPECT_EQ(convert_to({.input = "bad.et", .to = "chakra", .out = "b.et", .repair = true}),
            "dropped 3 edges\n"
            "  node 4 depends on node 3, which waits for it\n"
            "  node 5 depends on itself\n"
            "  node 5 depends on node 9, which does not exist\n");
  const auto repaired = chakra::read_chakra(at("b.et"));
  ASSERT_TRUE(repaired) << repaired.error().text();
  EXPECT_EQ(repaired->nodes[2].data_deps, std::vector<int64_t>{3});
}

TEST_F(ConvertChakra, StatisticsAnswerPeopleAndPrograms) {
  write("a.et", kSound);
  EXPECT_THAT(convert_to({.input = "a.et", .to = "statistics"}),
              HasSubstr("ALL_REDUCE          64 B in 1\n"));
  const Value json =
      *parse_json(convert_to({.input = "a.et", .to = "statistics", .json = true}), "stdout");
  EXPECT_EQ(*json.find("critical_path_ns"), Value(5000));
  write("bad.et", kUnsound);
  EXPECT_THAT(convert_to({.input = "bad.et", .to = "statistics"}),
              HasSubstr("cannot be         3: 1 to missing nodes, 1 to their own, 1 on cycles"));
}

TEST_F(ConvertChakra, DotIsDrawn) {
  write("a.et", kSound);
  EXPECT_THAT(convert_to({.input = "a.et", .to = "dot"}), HasSubstr("  1 -> 2;\n}\n"));
}

TEST_F(ConvertChakra, WhatDoesNotGoTogetherIsTold) {
  write("a.et", kSound);
  EXPECT_THAT(convert_to({.input = "a.et", .to = "chakra"}), HasSubstr("--out FILE"));
  EXPECT_THAT(convert_to({.input = "a.et", .to = "dot", .kineto = "k.json"}),
              HasSubstr("--kineto goes with"));
  ASSERT_TRUE(write_file(at("job.toml"), "[model]\n"));
  EXPECT_THAT(convert_to({.input = "job.toml", .to = "statistics"}),
              HasSubstr("wants a Chakra trace"));
  ASSERT_TRUE(write_file(at("et.json"), R"({"schema": "1.0.2", "nodes": []})"));
  EXPECT_THAT(convert_to({.input = "et.json", .to = "chakra", .out = "b.et"}),
              HasSubstr("--kineto FILE"));
}

}  // namespace
}  // namespace tombolo::predict_commands
