#include "predict/astra/astra_classes.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/check.h"
#include "predict/network/group_layout.h"

namespace tombolo::astra {
namespace {

// Not symmetric: who is who counts.
uint64_t mix(uint64_t h, uint64_t value) {
  h = ((h * 0xbf58476d1ce4e5b9u + 1) ^ value) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 32;
}

constexpr size_t kPairsMax = 64;  // groups up to this size are looked at pair by pair

class Refinement {
 public:
  Refinement(const Encounters& met, const network::Topology& topology,
             const SystemSettings& settings)
      : met_(met), topology_(topology), settings_(settings), colors_(met.programs) {}

  Result<RankClasses> run() {
    const size_t ranks = colors_.size();
    for (const Group& group : met_.groups) links_.push_back(links_of(group));
    size_t classes = 0;
    for (size_t now = count(); now != classes && now < ranks; now = count()) {
      classes = now;
      refine();
    }
    if (count() == ranks && ranks > 1) return unusable("no two ranks are alike" + because());
    if (met_.all_meet && count() > 1) {
      return unusable("a collective of all ranks joins ranks that are not alike" + because());
    }
    return take_classes();
  }

 private:
  struct Links {
    bool alike = true;
    uint64_t hash = 1;  // of all that its algorithm may use, in order where they are not alike
  };
  struct View {  // of a group, as its members' colours are now
    bool one_class = false;
    uint64_t hash = 0;
  };

  const Encounters& met_;
  const network::Topology& topology_;
  const SystemSettings& settings_;
  std::vector<uint64_t> colors_;  // per rank
  std::vector<Links> links_;      // per group

  uint64_t color(int32_t rank) const { return colors_[static_cast<size_t>(rank)]; }
  size_t count() const { return std::set<uint64_t>(colors_.begin(), colors_.end()).size(); }

  uint64_t distance(int32_t from, int32_t to) const {
    uint64_t out = 0;
    for (size_t d = topology_.first_difference(from, to); d < topology_.dimensions(); ++d) {
      const int32_t here = topology_.coordinate(from, d), there = topology_.coordinate(to, d);
      if (here == there) continue;
      const auto hops = static_cast<uint64_t>(topology_.hops(d, here, there));
      out = out == 0 ? 1 + mix(d, hops) : mix(out, mix(d, hops));
      if (!hierarchical(settings_)) break;
    }
    return out;
  }

  bool is_whole(const Group& group) const {
    return group.ranks.size() == static_cast<size_t>(topology_.npus());
  }

  Links links_of(const Group& group) const {
    if (is_whole(group) || group.ranks.size() == 1) return {};  // along dimensions, or none
    if (!hierarchical(settings_)) return links_of_ring(group);
    const auto layout = network::lay_out(group.ranks, topology_);
    if (!layout) return links_of_ring(group);
    const Links laid = links_of(group, *layout);
    if (!some_in_one_dimension()) return laid;
    const Links flat = links_of_ring(group);
    return {laid.alike && flat.alike, mix(laid.hash, flat.hash)};
  }

  Links links_of(const Group& group, const network::GroupLayout& layout) const {
    Links out{true, group.ranks.size()};
    for (const network::GroupSpan& span : layout) {
      out.alike &= network::alike(span, topology_);
      out.hash = mix(mix(out.hash, span.dimension), static_cast<uint64_t>(span.members));
      for (const int32_t place : span.places)
        out.hash = mix(out.hash, static_cast<uint64_t>(place));
    }
    // Places in a group tell where its members stand, if they are in order.
    if (std::is_sorted(group.ranks.begin(), group.ranks.end())) return out;
    for (const int32_t rank : group.ranks) {
      out.hash = mix(out.hash, static_cast<uint64_t>(rank - group.lowest()));
    }
    return out;
  }

  bool some_in_one_dimension() const {
    return std::any_of(
        settings_.algorithms.begin(), settings_.algorithms.end(), [](const auto& entry) {
          return std::any_of(entry.second.begin(), entry.second.end(),
                             [](const auto& choice) { return choice.one_dimension; });
        });
  }

  Links links_of_ring(const Group& group) const {
    const size_t n = group.ranks.size();
    const uint64_t first = distance(group.ranks[0], group.ranks[1]);
    const bool neighbours = neighbours_only();
    Links out{true, mix(first, n)};
    if (!neighbours && n > kPairsMax) {
      if (all_pairs_alike(group)) return out;
      return {false, mix(n, static_cast<uint64_t>(group.ranks[0]))};  // like no other
    }
    uint64_t in_order = n;
    for (size_t i = 0; i < n; ++i) {
      for (size_t step = 1; step < (neighbours ? 2 : n); ++step) {
        const uint64_t link = distance(group.ranks[i], group.ranks[(i + step) % n]);
        out.alike &= link == first;
        in_order = mix(in_order, link);
      }
    }
    if (!out.alike) out.hash = in_order;
    return out;
  }

  // Whether groups run nothing but rings.
  bool neighbours_only() const {
    if (hierarchical(settings_)) return false;
    return std::all_of(
        settings_.algorithms.begin(), settings_.algorithms.end(), [](const auto& entry) {
          return entry.second.size() > 1 || entry.second[0].algorithm == network::Algorithm::kRing;
        });
  }

  // The same without looking at every pair, of more than three members: they lie along one
  // dimension in which all distances are equal, as far as the law looks.
  bool all_pairs_alike(const Group& group) const {
    const size_t d = topology_.first_difference(group.ranks[0], group.ranks[1]);
    if (topology_.dimension(d).block == network::Block::kRing) return false;
    std::set<int32_t> coordinates;
    for (const int32_t rank : group.ranks) {
      for (size_t other = 0; other < topology_.dimensions(); ++other) {
        if (other == d || (other > d && !hierarchical(settings_))) continue;
        if (topology_.coordinate(rank, other) != topology_.coordinate(group.ranks[0], other)) {
          return false;
        }
      }
      coordinates.insert(topology_.coordinate(rank, d));
    }
    return coordinates.size() == group.ranks.size();
  }

  uint64_t place_of(int32_t rank, int32_t group) const {
    const std::vector<int32_t>& joined = met_.joins[static_cast<size_t>(rank)];
    return static_cast<uint64_t>(std::find(joined.begin(), joined.end(), group) - joined.begin());
  }

  View view_of(size_t g) const {
    const Group& group = met_.groups[g];
    const auto id = static_cast<int32_t>(g);
    const auto seen = [&](int32_t rank) { return mix(color(rank), place_of(rank, id)); };
    const uint64_t first = seen(group.ranks[0]);
    View out{links_[g].alike, mix(links_[g].hash, first)};
    uint64_t in_order = links_[g].hash;
    for (const int32_t rank : group.ranks) {
      const uint64_t color = seen(rank);
      out.one_class &= color == first;
      in_order = mix(in_order, color);
    }
    if (!out.one_class) out.hash = mix(in_order, group.ranks.size());
    return out;
  }

  void refine() {
    std::vector<View> views;
    for (size_t g = 0; g < met_.groups.size(); ++g) views.push_back(view_of(g));
    std::vector<uint64_t> next = colors_;
    for (size_t r = 0; r < next.size(); ++r) {
      const auto rank = static_cast<int32_t>(r);
      for (const int32_t g : met_.joins[r]) {
        const View& view = views[static_cast<size_t>(g)];
        next[r] = mix(next[r], view.hash);
        if (view.one_class) continue;
        next[r] =
            mix(next[r], static_cast<uint64_t>(met_.groups[static_cast<size_t>(g)].position(rank)));
      }
      for (const Encounters::Peer& peer : met_.peers[r]) {
        next[r] = mix(mix(next[r], color(peer.rank)), peer.how);
        next[r] = mix(next[r], distance(rank, peer.rank));
      }
    }
    colors_ = std::move(next);
  }

  // What told ranks apart, if it was the network.
  std::string because() const {
    for (size_t g = 0; g < links_.size(); ++g) {
      if (links_[g].alike) continue;
      return fmt::format(": the links between members of communicator group {} differ",
                         met_.groups[g].id);
    }
    return "";
  }

  Result<RankClasses> take_classes() const {
    RankClasses out;
    std::unordered_map<uint64_t, int32_t> number, stand_in;
    for (size_t rank = 0; rank < colors_.size(); ++rank) {
      const auto [entry, is_new] =
          number.try_emplace(colors_[rank], static_cast<int32_t>(out.first.size()));
      if (is_new) out.first.push_back(static_cast<int32_t>(rank));
      out.class_of.push_back(entry->second);
    }
    for (size_t g = 0; g < met_.groups.size(); ++g) {
      const View view = view_of(g);
      if (!view.one_class && is_whole(met_.groups[g])) {
        return unusable(
            fmt::format("members of communicator group {}, which has all ranks, are not alike",
                        met_.groups[g].id) +
            because());
      }
      out.stand_in.push_back(
          view.one_class ? -1
                         : stand_in.try_emplace(view.hash, static_cast<int32_t>(g)).first->second);
    }
    return out;
  }
};

// --- What the Programs of all ranks say -------------------------------------------------------

using graph::NodeType;

bool is_message(const Program::Node& node) {
  return node.type == NodeType::kSend || node.type == NodeType::kReceive;
}

// The number of `value` in a list in which it may be new.
template <typename T, typename Same>
size_t number_in(std::vector<T>& list, const T& value, Same same) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const T& other) { return same(other, value); });
  const auto number = static_cast<size_t>(found - list.begin());
  if (found == list.end()) list.push_back(value);
  return number;
}

class Reader {
 public:
  explicit Reader(const RankPrograms& workload) : workload_(workload) {}

  // Nothing: collectives that are spelled out, or a message without its other end.
  std::optional<Encounters> run() {
    const size_t ranks = workload_.programs.size();
    out_.groups = workload_.groups;
    out_.peers.resize(ranks);
    out_.joins.resize(ranks);
    for (size_t rank = 0; rank < ranks; ++rank) {
      out_.programs.push_back(read(rank));
      if (custom_) return std::nullopt;
    }
    if (!match_messages()) return std::nullopt;
    return std::move(out_);
  }

 private:
  const RankPrograms& workload_;
  Encounters out_;
  bool custom_ = false;

  static bool same_rank(const Encounters::Peer& a, const Encounters::Peer& b) {
    return a.rank == b.rank;
  }

  uint64_t read(size_t rank) {
    const Program& program = *workload_.programs[rank];
    uint64_t hash = 0;
    for (const Program::Node& node : program.nodes) {
      uint64_t named = 0;
      if (is_message(node)) {
        named = 1 + number_in(out_.peers[rank], Encounters::Peer{node.peer}, same_rank);
      } else if (node.type == NodeType::kCollective && node.group >= 0) {
        named = 1 + number_in(out_.joins[rank], node.group, std::equal_to<>());
      } else if (node.type == NodeType::kCollective) {
        out_.all_meet |= node.collective != graph::CollectiveType::kBroadcast;
      }
      custom_ |= node.custom != nullptr;
      for (const uint64_t value :
           {static_cast<uint64_t>(node.type), static_cast<uint64_t>(node.collective),
            uint64_t{node.on_host}, uint64_t{node.priority}, named, uint64_t{node.dependencies},
            uint64_t{node.children}, static_cast<uint64_t>(node.replay_ns),
            static_cast<uint64_t>(node.bytes), static_cast<uint64_t>(node.tag),
            static_cast<uint64_t>(node.operations), static_cast<uint64_t>(node.tensor_bytes)}) {
        hash = mix(hash, value);
      }
      for (const uint8_t involved : node.involved_dims) hash = mix(hash, 2 + involved);
    }
    for (const uint32_t child : program.children) hash = mix(hash, child);
    if (program.tensors) {
      for (const int64_t bytes : program.tensors->bytes)
        hash = mix(hash, static_cast<uint64_t>(bytes));
      for (const auto& uses : program.tensors->uses) {
        hash = mix(hash, uses.size());
        for (const Tensors::Use& use : uses)
          hash = mix(hash, 2 * uint64_t{use.tensor} + use.writes);
      }
    }
    return hash;
  }

  // The k-th send of a kind belongs to the k-th receive.
  bool match_messages() {
    using Key = std::tuple<int32_t, int32_t, int64_t, int64_t>;
    struct Both {
      std::vector<uint32_t> sends, receives;
      size_t sent = 0, received = 0;
    };
    std::map<Key, Both> nodes;
    const auto both_of = [&](size_t rank, const Program::Node& node) -> Both& {
      const auto r = static_cast<int32_t>(rank);
      return nodes[node.type == NodeType::kSend ? Key{r, node.peer, node.tag, node.bytes}
                                                : Key{node.peer, r, node.tag, node.bytes}];
    };
    const auto each = [&](auto visit) {
      for (size_t rank = 0; rank < workload_.programs.size(); ++rank) {
        if (out_.peers[rank].empty()) continue;
        const std::vector<Program::Node>& program = workload_.programs[rank]->nodes;
        for (uint32_t n = 0; n < program.size(); ++n) {
          if (is_message(program[n])) visit(rank, n, program[n]);
        }
      }
    };
    each([&](size_t rank, uint32_t n, const Program::Node& node) {
      Both& both = both_of(rank, node);
      (node.type == NodeType::kSend ? both.sends : both.receives).push_back(n);
    });
    for (const auto& [key, both] : nodes) {
      if (both.sends.size() != both.receives.size()) return false;
    }
    each([&](size_t rank, uint32_t, const Program::Node& node) {
      Both& both = both_of(rank, node);
      const uint32_t other =
          node.type == NodeType::kSend ? both.receives[both.sent++] : both.sends[both.received++];
      std::vector<Encounters::Peer>& peers = out_.peers[rank];
      Encounters::Peer& peer = peers[number_in(peers, Encounters::Peer{node.peer}, same_rank)];
      peer.how = mix(peer.how, other);
    });
    return true;
  }
};

}  // namespace

Result<RankClasses> find_classes(const Encounters& encounters, const network::Topology& topology,
                                 const SystemSettings& settings) {
  const size_t ranks = encounters.programs.size();
  CHECK(ranks == static_cast<size_t>(topology.npus()) && encounters.peers.size() == ranks &&
            encounters.joins.size() == ranks,
        "{} programs, {} lists of peers and {} of groups for {} NPUs", ranks,
        encounters.peers.size(), encounters.joins.size(), topology.npus());
  return Refinement(encounters, topology, settings).run();
}

std::optional<RankClasses> find_classes(const RankPrograms& workload,
                                        const network::Topology& topology,
                                        const SystemSettings& settings) {
  if (workload.one_for_all)
    return RankClasses{std::vector<int32_t>(workload.programs.size()), {0}, {}};
  const auto encounters = Reader(workload).run();
  if (!encounters) return std::nullopt;
  Result<RankClasses> classes = find_classes(*encounters, topology, settings);
  if (!classes || messages_are_ambiguous(workload, *classes)) return std::nullopt;
  return std::move(*classes);
}

bool messages_are_ambiguous(const RankPrograms& workload, const RankClasses& classes) {
  using Key = std::tuple<NodeType, int32_t, int64_t, int64_t>;
  for (const int32_t rank : classes.first) {
    std::map<Key, int32_t> peers;
    for (const Program::Node& node : workload.programs[static_cast<size_t>(rank)]->nodes) {
      if (!is_message(node)) continue;
      const int32_t met = classes.class_of[static_cast<size_t>(node.peer)];
      if (peers.try_emplace({node.type, met, node.tag, node.bytes}, node.peer).first->second !=
          node.peer) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace tombolo::astra
