// Collectives that are spelled out as Chakra graphs: sends, receives and computations that need no
// resource of the rank.

#include <algorithm>

#include "predict/astra/astra_collectives.h"

namespace tombolo::astra {

void AstraCollectives::begin_custom(uint32_t chunk) {
  const Collective& collective = collectives_[chunks_[chunk].collective];
  const Program::Node& node = common_.program_of(collective.rank).nodes[collective.node];
  auto position = static_cast<size_t>(collective.rank);
  if (node.group >= 0) {
    const Group& group = workload_->groups[static_cast<size_t>(node.group)];
    position = static_cast<size_t>(group.position(collective.rank));
  }
  const auto id = static_cast<uint32_t>(customs_.size());
  CustomRun& custom = customs_.emplace_back();
  custom.program = &(*node.custom)[position];
  custom.rank = collective.rank;
  custom.group = node.group;
  custom.chunk = chunk;
  for (uint32_t n = 0; n < custom.program->nodes.size(); ++n) {
    custom.waiting_for.push_back(custom.program->nodes[n].dependencies);
    if (custom.waiting_for.back() == 0) custom.ready.push_back(n);
  }
  start_custom_nodes(id);
}

// All that can start does: these nodes need no resource.
void AstraCollectives::start_custom_nodes(uint32_t id) {
  std::vector<uint32_t> ready;
  std::swap(ready, customs_[id].ready);
  std::sort(ready.begin(), ready.end());
  const int32_t rank = customs_[id].rank;
  const int32_t group = customs_[id].group;
  const auto real_rank = [&](int32_t position) {
    return group < 0
               ? position
               : workload_->groups[static_cast<size_t>(group)].ranks[static_cast<size_t>(position)];
  };
  for (const uint32_t n : ready) {
    const Program::Node& node = customs_[id].program->nodes[n];
    ++customs_[id].in_flight;
    const AstraMessages::Party party{id, n, AstraMessages::Party::kCustom};
    if (node.type == graph::NodeType::kSend) {
      messages_.offer(rank, real_rank(node.peer), node.tag, node.bytes, party);
    } else if (node.type == graph::NodeType::kReceive) {
      messages_.ask(real_rank(node.peer), rank, node.tag, node.bytes, party);
    } else {
      common_.set_alarm(rank, common_.now() + SimDuration{node.replay_ns},
                        MachineAlarm::kCustomDone, id, n);
    }
  }
}

void AstraCollectives::custom_node_over(uint32_t id, uint32_t n) {
  CustomRun& custom = customs_[id];
  const Program::Node& node = custom.program->nodes[n];
  --custom.in_flight;
  for (uint32_t i = 0; i < node.children; ++i) {
    const uint32_t child = custom.program->children[node.first_child + i];
    if (--custom.waiting_for[child] == 0) custom.ready.push_back(child);
  }
  start_custom_nodes(id);
  if (customs_[id].in_flight > 0 || !customs_[id].ready.empty()) return;
  const uint32_t chunk = customs_[id].chunk;
  customs_[id] = {};
  proceed(chunk);
}

}  // namespace tombolo::astra
