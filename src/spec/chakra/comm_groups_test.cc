#include "spec/chakra/comm_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tombolo::chakra {
namespace {

using ::testing::HasSubstr;

TEST(CommGroups, AFileNamesTheRanksOfEach) {
  EXPECT_EQ(parse_comm_groups(R"({"5": [0, 1], "x": [3, 2]})", "g.json").value(),
            (CommGroups{{"5", {0, 1}}, {"x", {3, 2}}}));
}

TEST(CommGroups, WhatIsBrokenIsToldInOneLine) {
  const auto complaint = [](std::string_view text) {
    const auto groups = parse_comm_groups(text, "g.json");
    return groups ? "sound" : groups.error().message;
  };
  EXPECT_EQ(complaint("{}"), "sound");
  EXPECT_EQ(complaint("[]"), "g.json: wanted groups, found a list");
  EXPECT_EQ(complaint(R"({"a": 1})"),
            "g.json: group \"a\": wanted a list of ranks, found a whole number");
  EXPECT_EQ(complaint(R"({"a": []})"), "g.json: group \"a\": has no ranks");
  EXPECT_EQ(complaint(R"({"a": [0, -1]})"), "g.json: group \"a\": element 1 is no rank");
  EXPECT_EQ(complaint(R"({"a": [1, 0, 1]})"), "g.json: group \"a\": rank 1 stands twice");
}

// The text that PyTorch's tracer leaves, as Python prints it.
TEST(CommGroups, PytorchSaysThemInAMetadataNode) {
  graph::Node node{.id = 2, .name = "## process_group:init ##", .type = graph::NodeType::kMetadata};
  node.details.edit().inputs = {
      R"(['[{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "ranks": [],)"
      R"( "group_size": 4}, {"pg_name": "7", "pg_desc": "dp", "ranks": [1, 3]}]'])"};
  EXPECT_EQ(process_groups_of(node, "t.et").value(), (CommGroups{{"7", {1, 3}}}));
  node.details.edit().inputs = {R"(['[{"pg_name": 3, "ranks": [1]}]'])"};
  EXPECT_THAT(process_groups_of(node, "t.et").error().message,
              HasSubstr("a group without pg_name"));
  // Of another name it may declare something else, or groups all the same, as ASTRA-sim has it.
  node.name = "another";
  EXPECT_EQ(process_groups_of(node, "t.et").value(), CommGroups());
  node.details.edit().inputs = {R"(['[{"pg_name": "7", "ranks": [1, 3]}]'])"};
  EXPECT_EQ(process_groups_of(node, "t.et").value(), (CommGroups{{"7", {1, 3}}}));
}

TEST(CommGroups, WhatIsWrittenCanBeRead) {
  EXPECT_DEATH(to_json_text({{"7", {}}}), "communicator group 7 has no ranks");
  EXPECT_DEATH(to_json_text({{"7", {0, -1}}}), "communicator group 7 has rank -1");
}

}  // namespace
}  // namespace tombolo::chakra
