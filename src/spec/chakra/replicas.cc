#include "spec/chakra/replicas.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/check.h"

namespace tombolo::chakra {
namespace {

constexpr size_t kKindsMax = 8;
constexpr int32_t kWorld = -1;

bool is_message(const graph::Node& node) {
  return node.type == graph::NodeType::kSend || node.type == graph::NodeType::kReceive;
}

bool sums(const graph::Node& node) {
  return node.collective == graph::CollectiveType::kAllReduce ||
         node.collective == graph::CollectiveType::kReduceScatter ||
         node.collective == graph::CollectiveType::kReduce;
}

bool gathers(const graph::Node& node) {
  return node.type == graph::NodeType::kCollective &&
         node.collective == graph::CollectiveType::kAllGather;
}

class Search {
 public:
  Search(const graph::Graphs& graphs, const CommGroups& declared)
      : graphs_(graphs), declared_(declared) {}

  Result<ReplicaRanks> run(const std::vector<std::string>& data_groups) {
    TRY(resolve());
    if (!data_groups.empty()) {
      TRY(mark(data_groups));
      return replicas();
    }
    return choose();
  }

 private:
  const graph::Graphs& graphs_;
  const CommGroups& declared_;
  std::vector<ReplicaRanks::Joined> groups_;
  std::map<std::string, int32_t> number_;
  std::vector<std::vector<int32_t>> joins_;  // per rank: the group of each collective, in order
  std::vector<std::vector<size_t>> kinds_;   // groups of one pattern
  bool all_meet_ = false;

  size_t ranks() const { return graphs_.size(); }
  static size_t at(int32_t i) { return static_cast<size_t>(i); }

  // Names become numbers; groups that no node uses are left out.
  Status resolve() {
    std::set<std::string> used;
    for (const graph::Graph& graph : graphs_) {
      for (const graph::Node& node : graph.nodes) {
        if (node.type == graph::NodeType::kCollective) used.insert(node.details->pg_name);
      }
    }
    all_meet_ = used.erase("") + used.erase("0") > 0;
    std::vector<std::string> names(used.begin(), used.end());
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      return std::pair(a.size(), a) < std::pair(b.size(), b);
    });
    std::map<std::vector<int32_t>, size_t> kind_of;
    for (const std::string& name : names) {
      const auto found = declared_.find(name);
      if (found == declared_.end()) {
        return unusable(fmt::format("communicator group {} is not declared", name),
                        "--comm-groups FILE with {\"" + name + "\": [0, 1]}");
      }
      std::vector<int32_t> pattern = found->second;
      for (const int32_t rank : pattern) {
        if (at(rank) >= ranks()) {
          return unusable(
              fmt::format("communicator group {} has rank {}, and there are traces of {}", name,
                          rank, ranks()));
        }
      }
      for (size_t i = pattern.size(); i-- > 0;) pattern[i] -= pattern[0];
      const auto [kind, is_new] = kind_of.try_emplace(pattern, kinds_.size());
      if (is_new) kinds_.emplace_back();
      kinds_[kind->second].push_back(groups_.size());
      number_[name] = static_cast<int32_t>(groups_.size());
      groups_.push_back({name, found->second, false});
    }
    for (const graph::Graph& graph : graphs_) {
      auto& joins = joins_.emplace_back();
      for (const graph::Node& node : graph.nodes) {
        if (is_message(node) && (node.comm_peer < 0 || at(node.comm_peer) >= ranks())) {
          return unusable(fmt::format("node {} of rank {}: rank {} at its other end has no trace",
                                      node.id, graph.rank, node.comm_peer));
        }
        if (node.type != graph::NodeType::kCollective) continue;
        const auto found = number_.find(node.details->pg_name);
        joins.push_back(found == number_.end() ? kWorld : found->second);
        if (joins.back() == kWorld) continue;
        const std::vector<int32_t>& members = groups_[at(joins.back())].ranks;
        if (std::find(members.begin(), members.end(), graph.rank) == members.end()) {
          return unusable(fmt::format("rank {} is not a member of communicator group {}",
                                      graph.rank, node.details->pg_name));
        }
      }
    }
    return {};
  }

  Status mark(const std::vector<std::string>& data_groups) {
    for (const std::string& name : data_groups) {
      const auto found = number_.find(name);
      if (found == number_.end()) {
        return unusable(fmt::format("--data-groups: no collective joins group {}", name));
      }
      groups_[at(found->second)].data = true;
    }
    return {};
  }

  void mark(uint64_t choice) {
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      for (const size_t g : kinds_[kind]) groups_[g].data = (choice >> kind & 1) != 0;
    }
  }

  Result<ReplicaRanks> choose() {
    if (kinds_.size() > kKindsMax) {
      return unusable(fmt::format("groups of {} different patterns: too many to find out which are "
                                  "data-parallel",
                                  kinds_.size()),
                      "--data-groups with their names");
    }
    std::vector<uint64_t> candidates, last;
    std::string reason = "no collective joins replicas";
    for (uint64_t choice = all_meet_ ? 0 : 1; choice < uint64_t{1} << kinds_.size(); ++choice) {
      mark(choice);
      if (const auto found = replicas(); found) {
        candidates.push_back(choice);
        if (sums_come_last(*found)) last.push_back(choice);
      } else {
        reason = found.error().message;
      }
    }
    if (last.size() == 1) {
      mark(last[0]);
      return replicas();
    }
    if (candidates.empty()) {
      return unusable("no groups were found to be data-parallel: " + reason,
                      "--data-groups with the names of those that are");
    }
    std::vector<std::string> names;
    for (const uint64_t choice : last.empty() ? candidates : last)
      names.push_back(names_of(choice));
    return unusable("it is not clear which groups are data-parallel",
                    fmt::format("--data-groups={}", fmt::join(names, ", or --data-groups=")));
  }

  std::string names_of(uint64_t choice) const {
    std::vector<std::string> names;
    for (size_t kind = 0; kind < kinds_.size(); ++kind) {
      if ((choice >> kind & 1) == 0) continue;
      for (const size_t g : kinds_[kind]) names.push_back(groups_[g].name);
    }
    return names.empty() ? "0" : fmt::format("{}", fmt::join(names, ","));
  }

  // --- Replicas, where the groups marked as such join them -----------------------------------

  Result<ReplicaRanks> replicas() const {
    ReplicaRanks out;
    out.groups = groups_;
    TRY(split(out));
    TRY(find_places(out));
    TRY(compare(out));
    return out;
  }

  Status split(ReplicaRanks& out) const {
    std::vector<int32_t> above(ranks());
    std::iota(above.begin(), above.end(), 0);
    const auto top = [&](int32_t r) {
      while (above[at(r)] != r) r = above[at(r)] = above[at(above[at(r)])];
      return r;
    };
    const auto join = [&](int32_t a, int32_t b) {
      a = top(a);
      b = top(b);
      above[at(std::max(a, b))] = std::min(a, b);
    };
    for (const graph::Graph& graph : graphs_) {
      for (const graph::Node& node : graph.nodes) {
        if (is_message(node)) join(graph.rank, node.comm_peer);
      }
    }
    for (const ReplicaRanks::Joined& group : groups_) {
      if (group.data) continue;
      for (const int32_t rank : group.ranks) join(group.ranks[0], rank);
    }
    std::map<int32_t, int32_t> number;  // by lowest rank
    std::vector<int32_t> sizes;
    for (size_t r = 0; r < ranks(); ++r) {
      const auto [entry, is_new] =
          number.try_emplace(top(static_cast<int32_t>(r)), static_cast<int32_t>(sizes.size()));
      if (is_new) sizes.push_back(0);
      out.replica_of.push_back(entry->second);
      ++sizes[at(entry->second)];
    }
    if (sizes.size() == 1 && ranks() > 1) {
      return unusable("messages and groups tie all ranks together, so there is one replica");
    }
    if (std::any_of(sizes.begin(), sizes.end(), [&](int32_t n) { return n != sizes[0]; })) {
      return unusable("replicas would have unequal numbers of ranks");
    }
    out.at.assign(sizes.size(), std::vector<int32_t>(at(sizes[0]), -1));
    return {};
  }

  // A rank's place: in the first data-parallel group that it is in, after how many of its replica.
  Status find_places(ReplicaRanks& out) const {
    out.place_of.assign(ranks(), -1);
    int32_t places = 0;
    for (const ReplicaRanks::Joined& group : groups_) {
      if (group.data) TRY(pair(group.ranks, out, places));
    }
    if (all_meet_) {
      std::vector<int32_t> others;
      for (size_t r = 0; r < ranks(); ++r) {
        if (out.place_of[r] < 0) others.push_back(static_cast<int32_t>(r));
      }
      TRY(pair(others, out, places));
    }
    const auto lost = std::find(out.place_of.begin(), out.place_of.end(), -1);
    if (lost == out.place_of.end()) return {};
    return unusable(
        fmt::format("rank {} is in no data-parallel group", lost - out.place_of.begin()));
  }

  // Members of a data-parallel group, by how many of their replica come before them in it.
  Status pair(const std::vector<int32_t>& group, ReplicaRanks& out, int32_t& places) const {
    std::vector<std::vector<int32_t>> parts(out.at.size());
    for (const int32_t rank : group) parts[at(out.replica_of[at(rank)])].push_back(rank);
    for (const auto& part : parts) {
      if (part.size() != parts[0].size()) {
        return unusable("a data-parallel group has more ranks of one replica than of another");
      }
    }
    for (size_t i = 0; i < parts[0].size(); ++i) {
      const int32_t known = out.place_of[at(parts[0][i])];
      for (size_t replica = 0; replica < parts.size(); ++replica) {
        int32_t& place = out.place_of[at(parts[replica][i])];
        if (place != known) return unusable("data-parallel groups pair ranks differently");
        if (known >= 0) continue;
        place = places;
        out.at[replica][at(places)] = parts[replica][i];
      }
      if (known < 0) ++places;
    }
    return {};
  }

  Status compare(ReplicaRanks& out) const {
    for (size_t replica = 0; replica < out.at.size(); ++replica) {
      out.same.emplace_back(groups_.size(), -1);
      for (size_t place = 0; place < out.at[0].size(); ++place) {
        TRY(compare(out, replica, out.at[0][place], out.at[replica][place]));
      }
    }
    return {};
  }

  Status compare(ReplicaRanks& out, size_t replica, int32_t first, int32_t other) const {
    const std::vector<graph::Node>& ours = graphs_[at(first)].nodes;
    const std::vector<graph::Node>& theirs = graphs_[at(other)].nodes;
    const auto differ = [&](const std::string& how) {
      return unusable(fmt::format("ranks {} and {} hold the same place in two replicas, but {}",
                                  first, other, how));
    };
    if (ours.size() != theirs.size()) {
      return differ(fmt::format("have {} and {} nodes", ours.size(), theirs.size()));
    }
    size_t collective = 0;
    for (size_t n = 0; n < ours.size(); ++n) {
      const graph::Node &a = ours[n], &b = theirs[n];
      bool alike = std::tie(a.type, a.is_cpu_op, a.comm_size, a.comm_tag, a.num_ops, a.data_deps,
                            a.ctrl_deps) == std::tie(b.type, b.is_cpu_op, b.comm_size, b.comm_tag,
                                                     b.num_ops, b.data_deps, b.ctrl_deps);
      if (alike && is_message(a)) {
        alike = out.at[replica][at(out.place_of[at(a.comm_peer)])] == b.comm_peer;
      } else if (alike && a.type == graph::NodeType::kCollective) {
        alike =
            a.collective == b.collective &&
            same_group(out, replica, joins_[at(first)][collective], joins_[at(other)][collective]);
        const int32_t group = joins_[at(first)][collective++];
        if (a.collective == graph::CollectiveType::kAllToAll &&
            (group == kWorld || groups_[at(group)].data)) {
          return unusable(
              fmt::format("node {} of rank {}: an all-to-all among replicas", a.id, first),
              "data-parallel ranks sum and gather");
        }
      }
      if (!alike) return differ(fmt::format("their nodes {} and {} differ", a.id, b.id));
    }
    return {};
  }

  bool same_group(ReplicaRanks& out, size_t replica, int32_t ours, int32_t theirs) const {
    if (ours == kWorld || theirs == kWorld || groups_[at(ours)].data) return ours == theirs;
    int32_t& known = out.same[replica][at(ours)];
    if (known >= 0) return known == theirs;
    const std::vector<int32_t>&a = groups_[at(ours)].ranks, &b = groups_[at(theirs)].ranks;
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (out.at[replica][at(out.place_of[at(a[i])])] != b[i]) return false;
    }
    known = theirs;
    return true;
  }

  // --- Which candidate sums gradients ---------------------------------------------------------

  bool sums_come_last(const ReplicaRanks& found) const {
    return std::all_of(found.at[0].begin(), found.at[0].end(),
                       [&](int32_t rank) { return sums_come_last(rank); });
  }

  bool sums_come_last(int32_t rank) const {
    const std::vector<graph::Node>& nodes = graphs_[at(rank)].nodes;
    std::vector<bool> goes_on(nodes.size()), data_sum(nodes.size());
    size_t collective = 0;
    for (size_t n = 0; n < nodes.size(); ++n) {
      goes_on[n] = is_message(nodes[n]);
      if (nodes[n].type != graph::NodeType::kCollective) continue;
      const int32_t group = joins_[at(rank)][collective++];
      const bool data = group == kWorld || groups_[at(group)].data;
      goes_on[n] = !data;
      data_sum[n] = data && sums(nodes[n]);
    }
    const std::vector<size_t> order = in_order(nodes);
    const auto each_dependency = [&](size_t n, auto visit) {
      for (const auto* list : {&nodes[n].data_deps, &nodes[n].ctrl_deps}) {
        for (const int64_t id : *list) visit(index_of(nodes, id));
      }
    };
    for (size_t i = order.size(); i-- > 0;) {
      const size_t n = order[i];
      if (!goes_on[n]) continue;
      each_dependency(n, [&](size_t before) { goes_on[before] = true; });
    }
    std::vector<std::vector<size_t>> after(nodes.size());
    for (size_t n = 0; n < nodes.size(); ++n) {
      each_dependency(n, [&](size_t before) { after[before].push_back(n); });
    }
    const auto work_goes_on = [&](size_t n) {
      return std::any_of(after[n].begin(), after[n].end(), [&](size_t next) {
        return goes_on[next] &&
               (nodes[next].type == graph::NodeType::kCompute || is_message(nodes[next]));
      });
    };
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (!data_sum[n]) continue;
      if (work_goes_on(n)) return false;
      // Sequence parallelism: what is scattered in parts is gathered again.
      if (after[n].size() == 1 && gathers(nodes[after[n][0]]) && work_goes_on(after[n][0])) {
        return false;
      }
    }
    return true;
  }

  static size_t index_of(const std::vector<graph::Node>& nodes, int64_t id) {
    const auto found =
        std::lower_bound(nodes.begin(), nodes.end(), id,
                         [](const graph::Node& node, int64_t key) { return node.id < key; });
    CHECK(found != nodes.end() && found->id == id, "there is no node {} to wait for", id);
    return static_cast<size_t>(found - nodes.begin());
  }

  // Dependencies first. Graphs were read with every dependency there and without cycles.
  static std::vector<size_t> in_order(const std::vector<graph::Node>& nodes) {
    std::vector<std::vector<size_t>> after(nodes.size());
    std::vector<size_t> waits(nodes.size()), order;
    for (size_t n = 0; n < nodes.size(); ++n) {
      for (const auto* list : {&nodes[n].data_deps, &nodes[n].ctrl_deps}) {
        for (const int64_t id : *list) {
          after[index_of(nodes, id)].push_back(n);
          ++waits[n];
        }
      }
    }
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (waits[n] == 0) order.push_back(n);
    }
    for (size_t i = 0; i < order.size(); ++i) {
      for (const size_t n : after[order[i]]) {
        if (--waits[n] == 0) order.push_back(n);
      }
    }
    CHECK(order.size() == nodes.size(), "{} of {} nodes wait for each other",
          nodes.size() - order.size(), nodes.size());
    return order;
  }
};

}  // namespace

Result<ReplicaRanks> find_replicas(const graph::Graphs& graphs, const CommGroups& groups,
                                   const std::vector<std::string>& data_groups) {
  CHECK(!graphs.empty(), "the replicas of no ranks");
  for (size_t r = 0; r < graphs.size(); ++r) {
    CHECK(graphs[r].rank == static_cast<int32_t>(r), "graph {} is of rank {}", r, graphs[r].rank);
  }
  return Search(graphs, groups).run(data_groups);
}

}  // namespace tombolo::chakra
