#include "spec/schedule/exchange_graph.h"

#include <cmath>

#include "base/check.h"

namespace tombolo::schedule::detail {
namespace {

using graph::Node;
using graph::NodeType;

Node node_of(const StageExchange& stage, size_t group, const graph::Graph& graph, NodeType type) {
  const action::Action sum{action::ActionKind::kReduceGradients, stage.stage, -1};
  return {.id = static_cast<int64_t>(graph.nodes.size()),
          .name = action::to_text(sum),
          .action = sum,
          .type = type,
          .part = static_cast<int32_t>(group)};
}

int64_t messages_in(const GradientExchange& exchange) {
  int64_t count = 0;
  for (const auto& round : exchange.rounds) count += std::ssize(round);
  return count;
}

// The messages of one exchange of a group among `ranks`.
struct Messages {
  const StageExchange& stage;
  size_t group = 0;
  const GradientExchange& exchange;
  int64_t first_tag = 0;
};

// Returns the node that says that all of them are there.
int64_t add_messages(const Messages& messages, const std::vector<int32_t>& ranks, int32_t own,
                     int64_t shards, int64_t ready, graph::Graph& graph) {
  // Equal ones leave in the order in which they were handed over.
  const bool first_come = messages.stage.plan->exchange.value_or(plan::Exchange{}).is_first_come();
  const uint32_t priority = first_come ? 1 : static_cast<uint32_t>(messages.group) + 1;
  int64_t tag = messages.first_tag;
  int64_t begun = ready;  // when the round begins for this rank
  for (const auto& round : messages.exchange.rounds) {
    std::vector<int64_t> received{begun};
    for (const ExchangeMessage& message : round) {
      const int64_t number = tag++;
      if (message.from != own && message.to != own) continue;
      const bool sends = message.from == own;
      Node node = node_of(messages.stage, messages.group, graph,
                          sends ? NodeType::kSend : NodeType::kReceive);
      node.comm_size = message_bytes(messages.stage, message, shards);
      node.comm_peer = ranks[static_cast<size_t>(sends ? message.to : message.from)];
      node.comm_priority = priority;
      node.comm_tag = number;
      node.data_deps = {begun};
      if (!sends) received.push_back(node.id);
      graph.nodes.push_back(std::move(node));
    }
    if (received.size() == 1) continue;
    Node there = node_of(messages.stage, messages.group, graph, NodeType::kInvalid);
    there.data_deps = std::move(received);
    begun = there.id;
    graph.nodes.push_back(std::move(there));
  }
  Node summed = node_of(messages.stage, messages.group, graph, NodeType::kInvalid);
  summed.comm_size = messages.stage.groups[messages.group].bytes;
  summed.data_deps = {ready};
  if (begun != ready) summed.data_deps.push_back(begun);
  graph.nodes.push_back(summed);
  return summed.id;
}

}  // namespace

StageExchange exchange_of(const plan::Plan& plan, int32_t stage, int64_t first_tag) {
  StageExchange out{.stage = stage, .plan = &plan, .end_tag = first_tag};
  const double element_bytes = plan::gradient_bytes(plan);
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
    StageExchange::Group& added = out.groups.back();
    out.end_tag += messages_in(added.exchange);
    if (!plan.exchange || !plan.exchange->is_local()) continue;
    added.outer = outer_exchange(plan, stage, elements, number);
    added.first_outer_tag = ++out.end_tag;  // 0 is what nodes have that are no messages
    added.steps = outer_steps(plan, stage, number);
    out.end_tag += messages_in(added.outer);
  }
  return out;
}

std::map<int32_t, StageExchange> exchanges_of(const plan::Plan& plan) {
  std::map<int32_t, StageExchange> exchanges;
  int64_t tag = 0;
  for (int32_t stage = 0; stage < std::ssize(plan.stages); ++stage) {
    if (!plan.exchanges_gradients(stage)) continue;
    exchanges[stage] = exchange_of(plan, stage, tag);
    tag = exchanges[stage].end_tag;
  }
  return exchanges;
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
  return add_messages({stage, group, here.exchange, here.first_tag}, ranks, own, shards, ready,
                      graph);
}

int64_t add_outer(const StageExchange& stage, size_t group, const std::vector<int32_t>& ranks,
                  int32_t own, int64_t shards, int64_t ready, graph::Graph& graph) {
  const StageExchange::Group& here = stage.groups[group];
  const int64_t gathered = add_messages({stage, group, here.outer, here.first_outer_tag}, ranks,
                                        own, shards, ready, graph);
  graph.nodes.back().comm_tag = here.first_outer_tag;  // so that the calendar knows it
  return gathered;
}

OuterCalendar::OuterCalendar(const plan::Plan& plan) {
  for (const auto& [stage, exchange] : exchanges_of(plan)) {
    for (const StageExchange::Group& each : exchange.groups) {
      const int64_t count = messages_in(each.outer);
      if (count == 0) continue;
      tags_.push_back({each.first_outer_tag, each.first_outer_tag + count, each.steps});
    }
  }
}

bool OuterCalendar::leaves_out(const graph::Node& node, int64_t iteration) const {
  const bool sums = node.action && node.action->kind == action::ActionKind::kReduceGradients;
  if (!sums || node.comm_size == 0) return false;
  for (const Tags& each : tags_) {
    if (node.comm_tag < each.first || node.comm_tag >= each.end) continue;
    return !each.steps.begins(iteration);
  }
  return false;
}

}  // namespace tombolo::schedule::detail
