#include "spec/schedule/exchange_graph.h"

#include <cmath>

#include "base/check.h"

namespace tombolo::schedule::detail {
namespace {

using graph::Node;
using graph::NodeType;

Node node_of(const StageExchange& stage, const graph::Graph& graph, NodeType type) {
  const action::Action sum{action::ActionKind::kReduceGradients, stage.stage, -1};
  return {.id = static_cast<int64_t>(graph.nodes.size()),
          .name = action::to_text(sum),
          .action = sum,
          .type = type};
}

}  // namespace

StageExchange exchange_of(const plan::Plan& plan, int32_t stage, int64_t first_tag) {
  StageExchange out{.stage = stage, .plan = &plan, .end_tag = first_tag};
  const double element_bytes = plan::gradient_bytes(plan.training.precision);
  double until = 0;  // bytes; each group ends at a whole one
  int64_t before = 0;
  for (const plan::GradientGroup& group : plan::gradient_groups(plan, stage)) {
    until += group.bytes.value;
    const int64_t bytes = std::llround(until) - before;
    before += bytes;
    const auto elements = static_cast<int64_t>(std::ceil(real(bytes) / element_bytes));
    const auto number = static_cast<int32_t>(out.groups.size());
    out.groups.push_back(
        {group, bytes, gradient_exchange(plan, stage, elements, number), out.end_tag});
    for (const auto& round : out.groups.back().exchange.rounds) out.end_tag += std::ssize(round);
  }
  return out;
}

std::vector<SimDuration> cut(SimDuration pass, const std::vector<double>& shares) {
  std::vector<SimDuration> parts;
  SimDuration before;
  for (const double share : shares) {
    CHECK(share >= 0 && share <= 1, "a share of {} of a pass", share);
    const SimDuration until{std::llround(real(pass.ns) * share)};
    parts.push_back(until - before);
    before = until;
  }
  CHECK(before == pass, "parts of {} ns make a pass of {} ns", before.ns, pass.ns);
  return parts;
}

int64_t message_bytes(const StageExchange& stage, const ExchangeMessage& message, int64_t shards) {
  return std::llround(bytes_of(*stage.plan, message)) * shards;
}

int64_t add_group(const StageExchange& stage, size_t group, const std::vector<int32_t>& ranks,
                  int32_t own, int64_t shards, int64_t ready, graph::Graph& graph) {
  const StageExchange::Group& here = stage.groups[group];
  int64_t tag = here.first_tag;
  int64_t begun = ready;  // when the round begins for this rank
  for (const auto& round : here.exchange.rounds) {
    std::vector<int64_t> received{begun};
    for (const ExchangeMessage& message : round) {
      const int64_t number = tag++;
      if (message.from != own && message.to != own) continue;
      const bool sends = message.from == own;
      Node node = node_of(stage, graph, sends ? NodeType::kSend : NodeType::kReceive);
      node.comm_size = message_bytes(stage, message, shards);
      node.comm_peer = ranks[static_cast<size_t>(sends ? message.to : message.from)];
      node.comm_priority = static_cast<uint32_t>(group) + 1;
      node.comm_tag = number;
      node.data_deps = {begun};
      if (!sends) received.push_back(node.id);
      graph.nodes.push_back(std::move(node));
    }
    if (received.size() == 1) continue;
    Node there = node_of(stage, graph, NodeType::kInvalid);
    there.data_deps = std::move(received);
    begun = there.id;
    graph.nodes.push_back(std::move(there));
  }
  Node summed = node_of(stage, graph, NodeType::kInvalid);
  summed.comm_size = here.bytes;
  summed.data_deps = {ready};
  if (begun != ready) summed.data_deps.push_back(begun);
  graph.nodes.push_back(summed);
  return summed.id;
}

}  // namespace tombolo::schedule::detail
