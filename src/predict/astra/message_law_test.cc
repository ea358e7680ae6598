// Laws of messages of one's own (message_law.h).
#include "predict/astra/message_law.h"

#include <gtest/gtest.h>

#include "support/astra_test_graphs.h"

namespace tombolo::astra {
namespace {

using graph::CollectiveType;
using graph::Graphs;
using graph::Node;
using graph::NodeType;
using network::Block;
using About = MessageRun::About;

// A microsecond, from anywhere to anywhere.
class Postman : public MessageLaw {
 public:
  using MessageLaw::MessageLaw;
  void send(const Message& message) override {
    run_.wake(run_.now() + SimDuration{1000}, About::kMessage, message.id);
  }
};

// The law `analytical`, as a caller's own.
class SameAsAnalytical : public MessageLaw {
 public:
  SameAsAnalytical(const network::Topology& topology, MessageRun& run)
      : MessageLaw(run), topology_(topology) {}
  void send(const Message& message) override {
    run_.wake(run_.now() + topology_.delay(message.from, message.to, message.bytes),
              About::kMessage, message.id);
  }

 private:
  const network::Topology& topology_;
};

// A ferry: leaves when an instant is over with all that was brought to it by then, and is there after
// 100 ns and 10 for each message on board.
class Ferry : public MessageLaw {
 public:
  using MessageLaw::MessageLaw;
  void send(const Message& message) override { waiting_.push_back(message.id); }
  bool settles() const override { return true; }
  void settle() override {
    const auto aboard = static_cast<int64_t>(waiting_.size());
    for (const uint32_t id : waiting_) {
      run_.wake(run_.now() + SimDuration{100 + 10 * aboard}, About::kMessage, id);
    }
    waiting_.clear();
  }

 private:
  std::vector<uint32_t> waiting_;
};

template <typename Law>
std::unique_ptr<MessageLaw> make_own(const network::Topology& topology, MessageRun& run) {
  if constexpr (std::is_constructible_v<Law, const network::Topology&, MessageRun&>) {
    return std::make_unique<Law>(topology, run);
  } else {
    return std::make_unique<Law>(run);
  }
}

struct LawSystem {
  std::vector<network::Dimension> dimensions{{Block::kRing, 4, 50, 500}};
  SystemSettings settings;
  LawSystem() {
    settings.endpoint_delay = 0;
    for (const auto kind : {CollectiveType::kAllReduce, CollectiveType::kAllToAll}) {
      settings.algorithms[kind] = {*network::parse_algorithm("ring")};
    }
  }
  Result<AstraAnswer> run(const Graphs& graphs, const MachineOptions& machine) const {
    const network::Topology topology = TRY(network::Topology::create(dimensions));
    const RankPrograms workload = TRY(make_workload(graphs, {}, topology, settings));
    return run_astra(topology, settings, workload, machine, true);
  }
};

Graphs collective_of_all(CollectiveType kind, int64_t bytes) {
  Node node;
  node.type = NodeType::kCollective;
  node.collective = kind;
  node.comm_size = bytes;
  return {{0, {node}}};
}

TEST(OwnLaw, CarriesEveryMessageOfACollective) {
  // A ring of four: 2 * 3 rounds of a microsecond, whatever the bytes; and no rank for its class.
  const MachineOptions machine{.own_law = make_own<Postman>};
  const auto answer =
      LawSystem().run(collective_of_all(CollectiveType::kAllReduce, 1 << 20), machine);
  EXPECT_EQ(finishes(answer), std::vector<int64_t>(4, 6000));
  EXPECT_FALSE(answer->collapsed());
}

TEST(OwnLaw, IsTheLawThatItSaysAgain) {
  LawSystem system;
  system.dimensions = {{Block::kRing, 4, 50, 500}, {Block::kSwitch, 2, 25, 700}};
  for (const auto kind : {CollectiveType::kAllReduce, CollectiveType::kAllToAll}) {
    system.settings.algorithms[kind].assign(2, *network::parse_algorithm("ring"));
    const Graphs graphs = collective_of_all(kind, 12345677);
    const auto own = system.run(graphs, {.own_law = make_own<SameAsAnalytical>});
    const auto ours = system.run(graphs, {.whole_phases = false});
    EXPECT_EQ(finishes(own), finishes(ours));
    EXPECT_EQ(own->report.fingerprint, ours->report.fingerprint);
  }
}

TEST(OwnLaw, SettlesWhenAnInstantIsOver) {
  // 0 and 1 send at once: 100 + 2 * 10 ns. 2 sends 50 ns later, alone: 50 + 110.
  Graphs graphs{{0, {message(0, NodeType::kSend, 3, 8)}},
                {1, {message(0, NodeType::kSend, 3, 16)}},
                {2, {Node{}, message(1, NodeType::kSend, 3, 32)}},
                {3,
                 {message(0, NodeType::kReceive, 0, 8), message(1, NodeType::kReceive, 1, 16),
                  message(2, NodeType::kReceive, 2, 32)}}};
  graphs[2].nodes[0].duration = SimDuration{50};
  graphs[2].nodes[1].data_deps = {0};
  const auto answer = LawSystem().run(graphs, {.own_law = make_own<Ferry>});
  EXPECT_EQ(finishes(answer), (std::vector<int64_t>{120, 120, 160, 160}));
}

TEST(OwnLaw, MayKnowAWanThatOursDoNot) {
  LawSystem system;
  system.dimensions = {{Block::kRing, 2, 50, 500}, {Block::kWan, 2, 1, 10000}};
  const Graphs graphs = collective_of_all(CollectiveType::kAllReduce, 1000);
  EXPECT_FALSE(system.run(graphs, {}).has_value());
  system.settings.algorithms[CollectiveType::kAllReduce].assign(2,
                                                                *network::parse_algorithm("ring"));
  EXPECT_TRUE(system.run(graphs, {.own_law = make_own<Postman>}).has_value());
}

}  // namespace
}  // namespace tombolo::astra
