#include "predict/sim/interpret.h"

#include <gtest/gtest.h>

namespace tombolo::sim {
namespace {

using graph::Graphs;
using graph::Node;
using graph::NodeType;

Node compute(int64_t id, int64_t ms, std::vector<int64_t> after = {}) {
  return {.id = id, .name = "c", .duration = {ms * 1'000'000}, .ctrl_deps = std::move(after)};
}
Node send(int64_t id, int32_t peer, int64_t bytes, std::vector<int64_t> after = {},
          int64_t tag = 0) {
  return {.id = id,
          .name = "s",
          .type = NodeType::kSend,
          .comm_size = bytes,
          .comm_peer = peer,
          .comm_tag = tag,
          .data_deps = std::move(after)};
}
Node receive(int64_t id, int32_t peer, int64_t bytes, int64_t tag = 0) {
  return {.id = id,
          .name = "r",
          .type = NodeType::kReceive,
          .comm_size = bytes,
          .comm_peer = peer,
          .comm_tag = tag};
}

Span ms(int64_t start, int64_t end) { return {{start * 1'000'000}, {end * 1'000'000}}; }

// Ranks 0 -> 1 and 2 -> 3 over one path of 1 Gbps = 125 MB/s; 1 MB each. The second message starts
// at 4 ms, when the first has 0.5 MB left. Then both have 62.5 MB/s: the first is done 8 ms later,
// at 12 ms; by then the second has 0.5 MB left and the whole path: 4 ms more. 10 ms to arrive.
TEST(Interpret, TwoFlowsShareAPath) {
  const Graphs graphs = {{0, {send(0, 1, 1'000'000)}},
                         {1, {receive(0, 0, 1'000'000)}},
                         {2, {compute(0, 4), send(1, 3, 1'000'000, {0})}},
                         {3, {receive(0, 2, 1'000'000)}}};
  Channels channels;
  channels.links = {{1_Gbps}};
  const ChannelLaw law{{10'000'000}, std::nullopt, {.links = {0}}};
  channels.laws = {{{0, 1}, law}, {{2, 3}, law}};
  const Execution execution = interpret(graphs, channels);
  EXPECT_EQ(execution.spans[0][0], ms(0, 12 + 10));
  EXPECT_EQ(execution.spans[2][1], ms(4, 16 + 10));
  EXPECT_EQ(execution.spans[1][0].end, (SimTime{22'000'000}));
}

// The second node may start 7 ms after the beginning; until then the rank computes the third one.
// The fourth waits 1 ms from the second's end on.
TEST(Interpret, ADelayKeepsNobodyBusy) {
  Node late = compute(1, 2);
  late.delay = {7'000'000};
  Node last = compute(3, 1, {1});
  last.delay = {1'000'000};
  const Execution execution = interpret({{0, {compute(0, 1), late, compute(2, 4), last}}}, {});
  EXPECT_EQ(execution.spans[0][2], ms(1, 5));
  EXPECT_EQ(execution.spans[0][1], ms(7, 9));
  EXPECT_EQ(execution.spans[0][3], ms(10, 11));
}

// Ranks 0 and 2 send over one channel that takes 3 ms each; rank 2 is first by the order, so that
// rank 0's message, ready at once, waits until 5 + 3 ms. It is there 2 ms after it left.
TEST(Interpret, ASharedChannelKeepsToItsOrder) {
  const Graphs graphs = {{0, {send(0, 1, 10)}},
                         {1, {receive(0, 0, 10)}},
                         {2, {compute(0, 5), send(1, 3, 10, {0})}},
                         {3, {receive(0, 2, 10)}}};
  Channels channels;
  channels.shared = {{{{2'000'000}, SimDuration{3'000'000}, {}}, {}, {{2, 1}, {0, 0}}}};
  const Execution execution = interpret(graphs, channels);
  EXPECT_EQ(execution.spans[2][1], ms(5, 8 + 2));
  EXPECT_EQ(execution.spans[0][0], ms(8, 11 + 2));
}

// The ranks of a sum arrive at 2, 5 and 3 ms; it lasts 4 ms from the last arrival and ends for all
// at 9 ms. Rank 0's next computation waits for it, rank 3 is not concerned.
TEST(Interpret, ACollectiveWaitsForItsLastRank) {
  const auto sum = [](int64_t tag) {
    return Node{.id = 1,
                .name = "sum",
                .type = NodeType::kCollective,
                .duration = {4'000'000},
                .comm_size = 100,
                .comm_tag = tag,
                .comm_group = {0, 1, 2},
                .ctrl_deps = {0}};
  };
  const Graphs graphs = {{0, {compute(0, 2), sum(7), compute(2, 1, {1})}},
                         {1, {compute(0, 5), sum(7)}},
                         {2, {compute(0, 3), sum(7)}},
                         {3, {compute(0, 1)}}};
  const Execution execution = interpret(graphs, {});
  EXPECT_EQ(execution.spans[0][1], ms(2, 9));
  EXPECT_EQ(execution.spans[1][1], ms(5, 9));
  EXPECT_EQ(execution.spans[2][1], ms(3, 9));
  EXPECT_EQ(execution.spans[0][2], ms(9, 10));
  EXPECT_EQ(execution.spans[3][0], ms(0, 1));
}

// One message at a time: the second leaves when the last byte of the first has left, not when it
// has arrived.
TEST(Interpret, AChannelIsAQueue) {
  const Graphs graphs = {{0, {send(0, 1, 1'000'000, {}, 0), send(1, 1, 2'000'000, {}, 1)}},
                         {1, {receive(0, 0, 2'000'000, 1), receive(1, 0, 1'000'000, 0)}}};
  Channels channels;
  channels.laws = {{{0, 1}, {{50'000'000}, std::nullopt, {.cap = 125_MBps}}}};
  const Execution execution = interpret(graphs, channels);
  EXPECT_EQ(execution.spans[0][0], ms(0, 8 + 50));
  EXPECT_EQ(execution.spans[0][1], ms(8, 8 + 16 + 50));
}

TEST(Interpret, AFixedOccupancyNeedsNoBytes) {
  const Graphs graphs = {{0, {send(0, 1, 0, {}, 0), send(1, 1, 0, {}, 1)}},
                         {1, {receive(0, 0, 0, 0), receive(1, 0, 0, 1)}}};
  Channels channels;
  channels.laws = {{{0, 1}, {{0}, SimDuration{2'000'000}, {}}}};
  const Execution execution = interpret(graphs, channels);
  EXPECT_EQ(execution.spans[0][0], ms(0, 2));
  EXPECT_EQ(execution.spans[0][1], ms(2, 4));
}

// A rank computes one node at a time, the lowest id first among those that may start.
TEST(Interpret, ARankIsSerial) {
  const Graphs graphs = {{0, {compute(0, 3), compute(1, 2), compute(2, 1, {1}), compute(3, 5)}}};
  const Execution execution = interpret(graphs, {});
  EXPECT_EQ(execution.spans[0][0], ms(0, 3));
  EXPECT_EQ(execution.spans[0][1], ms(3, 5));
  EXPECT_EQ(execution.spans[0][2], ms(5, 6));
  EXPECT_EQ(execution.spans[0][3], ms(6, 11));
}

TEST(Interpret, RepeatChainsEachRankByItsLastComputation) {
  const Graphs twice = repeat(
      {{0, {compute(0, 1), send(1, 1, 8, {0}), compute(2, 1, {0})}}, {1, {receive(0, 0, 8)}}}, 2);
  ASSERT_TRUE(graph::validate(twice));
  ASSERT_EQ(twice[0].nodes.size(), 6u);
  EXPECT_EQ(twice[0].nodes[3].ctrl_deps, (std::vector<int64_t>{2}));
  EXPECT_EQ(twice[0].nodes[4].comm_tag, 1);
  EXPECT_EQ(twice[0].nodes[4].data_deps, (std::vector<int64_t>{3}));
}

// A computation that waits for a message and for the second of two nodes that take no time: each of
// these is finished once, and the message still waited for.
TEST(Interpret, NodesThatTakeNoTimeAreFinishedOnce) {
  const auto nothing = [](int64_t id, std::vector<int64_t> deps) {
    Node node = compute(id, 0, std::move(deps));
    node.type = graph::NodeType::kInvalid;
    return node;
  };
  const Graphs graphs = {
      {0, {nothing(0, {}), nothing(1, {0}), receive(2, 1, 8), compute(3, 1, {1, 2})}},
      {1, {compute(0, 5), send(1, 0, 8, {0})}}};
  Channels channels;
  channels.laws[{1, 0}] = {.latency = SimDuration{1'000'000}, .occupancy = SimDuration{0}};
  EXPECT_EQ(interpret(graphs, channels).spans[0][3], ms(6, 7));
}

TEST(InterpretDeath, MissingChannelsAreBugs) {
  const Graphs graphs = {{0, {send(0, 1, 8)}}, {1, {receive(0, 0, 8)}}};
  EXPECT_DEATH(interpret(graphs, {}), "no channel from rank 0 to rank 1");
}

// The example of docs/laws/gradient_exchange.md. Rank 0 sends rank 1 one message after the other, 10 ms each:
// a first one, then X, which rank 1 hands on to rank 2 (10 ms, and 50 until it is there), and Y, which is
// more urgent and waits for rank 2. With 12 ms from rank 2, X leaves at 10 ms, is handed on at 20 and there at
// 80. With 8 ms Y is ready when the line is free, X leaves at 20 ms and is there at 90.
TEST(Interpret, AShorterWayMayTakeLonger) {
  const auto end_with = [](int64_t latency_ms) {
    const auto message = [](int64_t id, int32_t peer, std::vector<int64_t> after, int64_t tag,
                            uint32_t priority) {
      Node node = send(id, peer, 1'000'000, std::move(after), tag);
      node.comm_priority = priority;
      return node;
    };
    const Graphs graphs = {{0,
                            {message(0, 1, {}, 0, 1), message(1, 1, {}, 1, 2),
                             receive(2, 2, 1'000'000), message(3, 1, {2}, 2, 1)}},
                           {1,
                            {receive(0, 0, 1'000'000, 0), receive(1, 0, 1'000'000, 1),
                             receive(2, 0, 1'000'000, 2), message(3, 2, {1}, 0, 1)}},
                           {2, {message(0, 0, {}, 0, 1), receive(1, 1, 1'000'000, 0)}}};
    Channels channels;
    channels.laws = {{{0, 1}, {{0}, SimDuration{10'000'000}, {}}},
                     {{1, 2}, {{50'000'000}, SimDuration{10'000'000}, {}}},
                     {{2, 0}, {{latency_ms * 1'000'000}, SimDuration{0}, {}}}};
    return interpret(graphs, channels).spans[2][1].end.ns / 1'000'000;
  };
  EXPECT_EQ(end_with(12), 80);
  EXPECT_EQ(end_with(8), 90);
}

// What is not validated is not believed either.
TEST(InterpretDeath, PartsThatAreMissingAreBugs) {
  const Graphs unanswered = {{0, {send(0, 1, 8, {}, 3)}}, {1, {receive(0, 0, 8, 4)}}};
  EXPECT_DEATH(interpret_sound(unanswered, {}), "rank 0 sends tag 3, rank 1 receives tag 4");
  EXPECT_DEATH(interpret_sound({{0, {compute(0, 1), compute(1, 1, {7})}}}, {}),
               "rank 0 has no node 7");
  Node sum = compute(0, 1);
  sum.type = NodeType::kCollective;
  sum.comm_group = {0, 1};
  EXPECT_DEATH(interpret_sound({{0, {sum}}, {1, {compute(0, 1)}}}, {}), "1 ranks of 2 take part");
}

}  // namespace
}  // namespace tombolo::sim
