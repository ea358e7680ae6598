#include "sim/astra_classes.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

namespace tombolo::sim {
namespace {

using graph::NodeType;

uint64_t mix(uint64_t h, uint64_t value) {
  h = (h ^ value) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 32;
}

bool is_message(const Program::Node& node) {
  return node.type == NodeType::kSend || node.type == NodeType::kReceive;
}

// What a Program says without naming ranks and groups, and where it names them.
struct Shape {
  uint64_t hash = 0;
  std::vector<uint32_t> messages, in_groups;
  bool meets_all = false;  // has a collective of all ranks
  bool custom = false;
};

Shape shape_of(const Program& program) {
  Shape out;
  for (uint32_t n = 0; n < program.nodes.size(); ++n) {
    const Program::Node& node = program.nodes[n];
    for (const uint64_t value :
         {static_cast<uint64_t>(node.type), static_cast<uint64_t>(node.collective),
          uint64_t{node.on_host}, uint64_t{node.priority}, uint64_t{node.group >= 0},
          uint64_t{node.dependencies}, uint64_t{node.children},
          static_cast<uint64_t>(node.replay_ns), static_cast<uint64_t>(node.bytes),
          static_cast<uint64_t>(node.tag), static_cast<uint64_t>(node.operations),
          static_cast<uint64_t>(node.tensor_bytes)}) {
      out.hash = mix(out.hash, value);
    }
    for (const uint8_t involved : node.involved_dims) out.hash = mix(out.hash, 2 + involved);
    if (is_message(node)) out.messages.push_back(n);
    if (node.type != NodeType::kCollective) continue;
    if (node.group >= 0) out.in_groups.push_back(n);
    out.meets_all |= node.group < 0 && node.collective != graph::CollectiveType::kBroadcast;
    out.custom |= node.custom != nullptr;
  }
  for (const uint32_t child : program.children) out.hash = mix(out.hash, child);
  return out;
}

class Refinement {
 public:
  Refinement(const Workload& workload, const network::Topology& topology,
             const SystemSettings& settings)
      : workload_(workload), topology_(topology), settings_(settings) {}

  std::optional<RankClasses> run() {
    const size_t ranks = workload_.programs.size();
    if (workload_.one_for_all) return RankClasses{std::vector<int32_t>(ranks), {0}};
    for (const Program* program : workload_.programs) {
      const auto [shape, is_new] = shapes_.try_emplace(program);
      if (is_new) shape->second = shape_of(*program);
      if (shape->second.custom) return std::nullopt;
      meets_all_ |= shape->second.meets_all;
      colors_.push_back(shape->second.hash);
    }
    for (const Group& group : workload_.groups) {
      links_.push_back(links_of(group));
      if (links_.back() == 0) return std::nullopt;
    }
    if (!match_messages()) return std::nullopt;
    size_t classes = 0;
    for (size_t now = count(); now != classes && now < ranks; now = count()) {
      classes = now;
      if (!names_anything()) break;
      refine();
    }
    if (count() == ranks && ranks > 1) return std::nullopt;
    if (meets_all_ && count() > 1) return std::nullopt;
    for (const Group& group : workload_.groups) {
      for (const int32_t rank : group.ranks) {
        if (color(rank) != color(group.ranks[0])) return std::nullopt;
      }
    }
    return take_classes();
  }

 private:
  const Workload& workload_;
  const network::Topology& topology_;
  const SystemSettings& settings_;
  std::unordered_map<const Program*, Shape> shapes_;
  std::vector<uint64_t> colors_;  // per rank
  std::vector<uint64_t> links_;   // per group: what its links are like
  // Per rank, of each of its messages in order: the node at the other end.
  std::vector<std::vector<uint32_t>> other_ends_;
  bool meets_all_ = false;

  uint64_t color(int32_t rank) const { return colors_[static_cast<size_t>(rank)]; }
  const Shape& shape(size_t rank) const { return shapes_.at(workload_.programs[rank]); }
  bool names_anything() const { return !other_ends_.empty() || !workload_.groups.empty(); }
  size_t count() const { return std::set<uint64_t>(colors_.begin(), colors_.end()).size(); }

  uint64_t distance(int32_t from, int32_t to) const {
    const size_t d = topology_.first_difference(from, to);
    const int32_t hops =
        topology_.hops(d, topology_.coordinate(from, d), topology_.coordinate(to, d));
    return 1 + mix(d, static_cast<uint64_t>(hops));
  }

  // Of all links that its algorithm may use: 0 if they differ.
  uint64_t links_of(const Group& group) const {
    const bool whole = group.ranks.size() == static_cast<size_t>(topology_.npus());
    if (whole || group.ranks.size() == 1) return 1;  // along dimensions, or none
    bool neighbours_only = true;
    for (const auto& [kind, choices] : settings_.algorithms) {
      neighbours_only &= choices.size() > 1 || choices[0].algorithm == network::Algorithm::kRing;
    }
    const size_t n = group.ranks.size();
    uint64_t alike = 0;
    for (size_t i = 0; i < n; ++i) {
      for (size_t step = 1; step < (neighbours_only ? 2 : n); ++step) {
        const uint64_t link = distance(group.ranks[i], group.ranks[(i + step) % n]);
        if (alike != 0 && link != alike) return 0;
        alike = link;
      }
    }
    return mix(alike, n);
  }

  // The k-th send of a kind belongs to the k-th receive.
  bool match_messages() {
    using Key = std::tuple<int32_t, int32_t, int64_t, int64_t>;
    std::map<Key, std::pair<std::vector<uint32_t>, std::vector<uint32_t>>> nodes;
    const auto key_of = [&](size_t rank, const Program::Node& node) {
      const auto r = static_cast<int32_t>(rank);
      return node.type == NodeType::kSend ? Key{r, node.peer, node.tag, node.bytes}
                                          : Key{node.peer, r, node.tag, node.bytes};
    };
    bool any = false;
    for (size_t rank = 0; rank < workload_.programs.size(); ++rank) {
      for (const uint32_t n : shape(rank).messages) {
        const Program::Node& node = workload_.programs[rank]->nodes[n];
        auto& both = nodes[key_of(rank, node)];
        (node.type == NodeType::kSend ? both.first : both.second).push_back(n);
        any = true;
      }
    }
    if (!any) return true;
    for (const auto& [key, both] : nodes) {
      if (both.first.size() != both.second.size()) return false;
    }
    other_ends_.resize(workload_.programs.size());
    std::map<Key, std::pair<size_t, size_t>> used;
    for (size_t rank = 0; rank < workload_.programs.size(); ++rank) {
      for (const uint32_t n : shape(rank).messages) {
        const Program::Node& node = workload_.programs[rank]->nodes[n];
        const Key key = key_of(rank, node);
        auto& [sends, receives] = used[key];
        const auto& both = nodes[key];
        other_ends_[rank].push_back(node.type == NodeType::kSend ? both.second[sends++]
                                                                 : both.first[receives++]);
      }
    }
    return true;
  }

  void refine() {
    std::vector<uint64_t> groups;
    for (size_t g = 0; g < workload_.groups.size(); ++g) {
      const Group& group = workload_.groups[g];
      uint64_t h = mix(links_[g], color(group.ranks[0]));
      for (const int32_t rank : group.ranks) {
        if (color(rank) != color(group.ranks[0])) h = mix(~h, g);  // mixed: like no other
      }
      groups.push_back(h);
    }
    std::vector<uint64_t> next = colors_;
    for (size_t rank = 0; rank < next.size(); ++rank) {
      const Program& program = *workload_.programs[rank];
      const Shape& named = shape(rank);
      for (const uint32_t n : named.in_groups) {
        next[rank] = mix(next[rank], groups[static_cast<size_t>(program.nodes[n].group)]);
      }
      for (size_t i = 0; i < named.messages.size(); ++i) {
        const int32_t peer = program.nodes[named.messages[i]].peer;
        next[rank] = mix(mix(next[rank], color(peer)), other_ends_[rank][i]);
        next[rank] = mix(next[rank], distance(static_cast<int32_t>(rank), peer));
      }
    }
    colors_ = std::move(next);
  }

  RankClasses take_classes() const {
    RankClasses out;
    std::unordered_map<uint64_t, int32_t> number;
    for (size_t rank = 0; rank < colors_.size(); ++rank) {
      const auto [entry, is_new] =
          number.try_emplace(colors_[rank], static_cast<int32_t>(out.first.size()));
      if (is_new) out.first.push_back(static_cast<int32_t>(rank));
      out.class_of.push_back(entry->second);
    }
    return out;
  }
};

}  // namespace

std::optional<RankClasses> find_classes(const Workload& workload, const network::Topology& topology,
                                        const SystemSettings& settings) {
  return Refinement(workload, topology, settings).run();
}

}  // namespace tombolo::sim
