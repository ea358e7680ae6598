// A sound pair of graphs is broken in every way there is; each is answered with its own message.
#include "spec/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace tombolo::graph {
namespace {

using ::testing::HasSubstr;

// Rank 0 computes and sends; rank 1 receives and computes.
Graphs sound() {
  return {{0,
           {{.id = 0, .name = "0F0", .duration = {5}},
            {.id = 1,
             .name = "0SEND_F0",
             .type = NodeType::kSend,
             .comm_size = 8,
             .comm_peer = 1,
             .comm_tag = 3,
             .data_deps = {0}},
            {.id = 4, .name = "0U", .duration = {1}, .ctrl_deps = {0}}}},
          {1,
           {{.id = 0,
             .name = "1RECV_F0",
             .type = NodeType::kReceive,
             .comm_size = 8,
             .comm_peer = 0,
             .comm_tag = 3},
            {.id = 1, .name = "1F0", .duration = {INT64_MAX}, .data_deps = {0}}}}};
}

std::string complaint(const std::function<void(Graphs&)>& damage) {
  Graphs graphs = sound();
  damage(graphs);
  const Status status = validate(graphs);
  return status ? "sound" : status.error().message;
}

TEST(Graph, AcceptsWhatIsSound) {
  EXPECT_EQ(complaint([](Graphs&) {}), "sound");
}

// Two ranks sum, twice.
TEST(Graph, PartsOfACollectiveMustMeet) {
  const auto part = [](int64_t id, int64_t tag, std::vector<int64_t> after = {}) {
    return Node{.id = id,
                .name = "sum",
                .type = NodeType::kCollective,
                .duration = {5},
                .comm_size = 8,
                .comm_tag = tag,
                .comm_group = {0, 1},
                .ctrl_deps = std::move(after)};
  };
  const Graphs fine = {{0, {part(0, 1), part(1, 2, {0})}}, {1, {part(0, 1), part(1, 2, {0})}}};
  const auto complaint_of = [&](const std::function<void(Graphs&)>& damage) {
    Graphs graphs = fine;
    damage(graphs);
    const Status status = validate(graphs);
    return status ? "sound" : status.error().message;
  };
  EXPECT_EQ(complaint_of([](Graphs&) {}), "sound");
  EXPECT_THAT(complaint_of([](Graphs& g) { g[1].nodes.pop_back(); }),
              HasSubstr("rank 0, node 1 (\"sum\"): only 1 of the 2 ranks of its group take part"));
  EXPECT_THAT(complaint_of([](Graphs& g) { g[1].nodes[0].comm_size = 9; }),
              HasSubstr("its size or duration differ from rank 0's"));
  EXPECT_THAT(complaint_of([](Graphs& g) { g[0].nodes[1].comm_tag = 1; }),
              HasSubstr("its group used tag 1 before"));
  EXPECT_THAT(complaint_of([](Graphs& g) {
                g[0].nodes[0].comm_group = {1, 0};
              }),
              HasSubstr("the ranks of its group must ascend"));
  EXPECT_THAT(complaint_of([](Graphs& g) { g[0].nodes[0].comm_group = {1}; }),
              HasSubstr("its group does not contain its own rank"));
  EXPECT_THAT(complaint_of([](Graphs& g) {
                g[0].nodes[0].comm_group = {0, 1, 2};
              }),
              HasSubstr("its group names ranks beyond 0 to 1"));
  // The other order on one of the ranks: each waits for the other.
  EXPECT_THAT(
      complaint_of([](Graphs& g) { std::swap(g[0].nodes[0].comm_tag, g[0].nodes[1].comm_tag); }),
      HasSubstr("it waits in a cycle of dependencies"));
  EXPECT_EQ(parse_graphs(to_json_text(fine), "g.json").value(), fine);
}

TEST(Graph, RefusesBrokenNodes) {
  EXPECT_THAT(complaint([](Graphs& g) { g[1].rank = 0; }),
              HasSubstr("graph 1 says that it is rank 0"));
  EXPECT_THAT(complaint([](Graphs& g) { g[0].nodes[2].id = 1; }),
              HasSubstr("rank 0, node 1 (\"0U\"): ids must ascend and be unique"));
  EXPECT_THAT(complaint([](Graphs& g) { g[0].nodes[0].duration.ns = -1; }),
              HasSubstr("its duration is negative"));
  EXPECT_THAT(complaint([](Graphs& g) { g[0].nodes[0].delay.ns = -1; }),
              HasSubstr("its delay is negative"));
  EXPECT_THAT(complaint([](Graphs& g) { g[0].nodes[1].comm_size = -1; }),
              HasSubstr("its size is negative"));
  EXPECT_THAT(complaint([](Graphs& g) { g[0].nodes[1].comm_peer = 2; }),
              HasSubstr("there is no rank 2"));
  EXPECT_THAT(complaint([](Graphs& g) { g[0].nodes[1].comm_peer = -1; }),
              HasSubstr("there is no rank -1"));
  EXPECT_THAT(complaint([](Graphs& g) { g[0].nodes[1].comm_peer = 0; }),
              HasSubstr("it sends to its own rank"));
}

TEST(Graph, RefusesBrokenDependencies) {
  EXPECT_THAT(complaint([](Graphs& g) { g[0].nodes[0].ctrl_deps = {0}; }),
              HasSubstr("it depends on itself"));
  EXPECT_THAT(complaint([](Graphs& g) { g[0].nodes[2].ctrl_deps = {2}; }),
              HasSubstr("it depends on node 2, which does not exist"));
  EXPECT_THAT(complaint([](Graphs& g) { g[0].nodes[0].data_deps = {4}; }),
              HasSubstr("it waits in a cycle of dependencies"));
}

TEST(Graph, RefusesCyclesThroughMessages) {
  // Rank 1 answers after receiving, and rank 0 sends only after the answer.
  const auto answer = [](Graphs& g) {
    g[1].nodes.push_back({.id = 2,
                          .name = "answer",
                          .type = NodeType::kSend,
                          .comm_size = 1,
                          .comm_peer = 0,
                          .comm_tag = 9,
                          .data_deps = {1}});
    g[0].nodes.push_back({.id = 7,
                          .name = "wait",
                          .type = NodeType::kReceive,
                          .comm_size = 1,
                          .comm_peer = 1,
                          .comm_tag = 9});
    g[0].nodes[0].data_deps = {7};
  };
  EXPECT_THAT(complaint(answer), HasSubstr("it waits in a cycle of dependencies"));
}

TEST(Graph, RefusesMessagesThatDoNotMatch) {
  EXPECT_THAT(complaint([](Graphs& g) { g[1].nodes[0].comm_size = 9; }),
              HasSubstr("it expects 9 bytes, but 8 are sent"));
  EXPECT_THAT(complaint([](Graphs& g) { g[1].nodes[0].comm_tag = 4; }),
              HasSubstr("rank 0 never sends tag 4"));
  EXPECT_THAT(complaint([](Graphs& g) {
                g[1].nodes.erase(g[1].nodes.begin());
                g[1].nodes[0].data_deps.clear();
              }),
              HasSubstr("rank 1 never receives it"));
  EXPECT_THAT(complaint([](Graphs& g) {
                Node again = g[0].nodes[1];
                again.id = 5;
                g[0].nodes.push_back(again);
              }),
              HasSubstr("its tag 3 to rank 1 was already used"));
  EXPECT_THAT(complaint([](Graphs& g) {
                Node again = g[1].nodes[0];
                again.id = 5;
                g[1].nodes.push_back(again);
              }),
              HasSubstr("or it is received twice"));
}

TEST(GraphFile, ReadsBackWhatItWrites) {
  const std::string text = to_json_text(sound());
  const Result<Graphs> again = parse_graphs(text, "g.json");
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(*again, sound());
  EXPECT_EQ(to_json_text(*again), text);
}

TEST(GraphFile, SpeaksTheWordsOfChakra) {
  const std::string text = to_json_text(sound());
  for (const char* word : {"COMP_NODE", "COMM_SEND_NODE", "COMM_RECV_NODE", "data_deps",
                           "ctrl_deps", "comm_size", "comm_tag"}) {
    EXPECT_THAT(text, HasSubstr(word));
  }
}

TEST(GraphFile, RefusesOtherVersionsAndUnsoundGraphs) {
  EXPECT_THAT(parse_graphs(R"({"tombolo_graph":2,"graphs":[]})", "g.json").error().text(),
              HasSubstr("this program reads version 1"));
  EXPECT_THAT(parse_graphs(R"({"tombolo_graph":1,"graphs":[{"rank":1,"nodes":[]}]})", "g.json")
                  .error()
                  .text(),
              HasSubstr("checking g.json"));
}

TEST(GraphFile, WhatIsWrittenCanBeRead) {
  Graphs graphs = sound();
  graphs[1].nodes[1].id = 0;
  EXPECT_DEATH(to_json_text(graphs), "rank 1: node 0 comes after node 0");
  graphs[1].rank = 0;
  EXPECT_DEATH(to_json_text(graphs), "graph 1 is of rank 0");
}

}  // namespace
}  // namespace tombolo::graph
