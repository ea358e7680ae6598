#include "spec/chakra/retarget.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/check.h"
#include "spec/chakra/chakra.h"

namespace tombolo::chakra {
namespace {

size_t index(int32_t i) { return static_cast<size_t>(i); }

constexpr int64_t kRanksMax = 1 << 20;

}  // namespace

Result<Retarget> Retarget::make(graph::Graphs graphs, const CommGroups& groups,
                                const RetargetOptions& options) {
  Retarget out;
  out.traced_ = TRY(find_replicas(graphs, groups, options.data_groups));
  out.graphs_ = std::move(graphs);
  const int64_t places = out.traced_.places();
  if (options.ranks < 1 || options.ranks > kRanksMax || options.ranks % places != 0) {
    return unusable(
        fmt::format("{} ranks are no whole number of replicas of {}", options.ranks, places),
        fmt::format("a multiple of {}, at most {}", places, kRanksMax));
  }
  out.number_ranks(static_cast<int32_t>(options.ranks / places));
  out.name_groups();
  return out;
}

// Replica u of the place that replica 0 has at rank r is at r + u * stride, if it was so before.
void Retarget::number_ranks(int32_t replicas) {
  replicas_ = replicas;
  const int32_t traced = traced_.count(), places = traced_.places();
  const int32_t stride = traced > 1 ? traced_.at[1][0] - traced_.at[0][0] : 1;
  bool regular = stride > 0 && places % stride == 0;
  for (int32_t u = 0; regular && u < traced; ++u) {
    for (int32_t place = 0; place < places; ++place) {
      const int32_t first = traced_.at[0][index(place)];
      regular &=
          traced_.at[index(u)][index(place)] == first + u * stride && first / stride % traced == 0;
    }
  }
  // Otherwise the ranks of a replica keep their order.
  std::vector<int32_t> order(traced_.at[0]);
  std::sort(order.begin(), order.end());
  replica_of_.resize(index(replicas) * index(places));
  place_of_.resize(replica_of_.size());
  for (int32_t u = 0; u < replicas; ++u) {
    auto& at = at_.emplace_back();
    for (int32_t place = 0; place < places; ++place) {
      const int32_t first = traced_.at[0][index(place)];
      const auto before = std::lower_bound(order.begin(), order.end(), first) - order.begin();
      const int32_t rank =
          regular ? first % stride + stride * (u + replicas * (first / (stride * traced)))
                  : u * places + static_cast<int32_t>(before);
      at.push_back(rank);
      replica_of_[index(rank)] = u;
      place_of_[index(rank)] = place;
    }
  }
}

int32_t Retarget::rank_at(int32_t replica, int32_t place) const {
  return at_[index(replica)][index(place)];
}

// Ascending where they were; else replica by replica, if they stood so, or place by place.
std::vector<int32_t> Retarget::members_of(const ReplicaRanks::Joined& group) const {
  std::vector<int32_t> places, out;
  for (const int32_t rank : group.ranks) {
    if (traced_.replica_of[index(rank)] == 0) places.push_back(traced_.place_of[index(rank)]);
  }
  const bool by_replica = std::all_of(
      group.ranks.begin(), group.ranks.begin() + static_cast<int64_t>(places.size()),
      [&](int32_t rank) {
        return traced_.replica_of[index(rank)] == traced_.replica_of[index(group.ranks[0])];
      });
  if (by_replica) {
    for (int32_t u = 0; u < replicas_; ++u) {
      for (const int32_t place : places) out.push_back(rank_at(u, place));
    }
  } else {
    for (const int32_t place : places) {
      for (int32_t u = 0; u < replicas_; ++u) out.push_back(rank_at(u, place));
    }
  }
  if (std::is_sorted(group.ranks.begin(), group.ranks.end())) std::sort(out.begin(), out.end());
  return out;
}

void Retarget::name_groups() {
  int64_t next = 1;
  names_.resize(traced_.groups.size());
  for (size_t g = 0; g < traced_.groups.size(); ++g) {
    const ReplicaRanks::Joined& group = traced_.groups[g];
    const auto add = [&](std::vector<int32_t> members) {
      names_[g].push_back(fmt::format("{}", next++));
      groups_.emplace(names_[g].back(), std::move(members));
    };
    if (group.data) {
      add(members_of(group));
    } else if (traced_.same[0][g] == static_cast<int32_t>(g)) {
      for (int32_t u = 0; u < replicas_; ++u) {
        std::vector<int32_t> members;
        for (const int32_t rank : group.ranks) {
          members.push_back(rank_at(u, traced_.place_of[index(rank)]));
        }
        add(std::move(members));
      }
    }
  }
}

// Of something that as many members had in equal parts.
int64_t Retarget::share(int64_t bytes, int64_t members) const {
  const __int128 whole = static_cast<__int128>(bytes) * members;
  const __int128 now = members / traced_.count() * replicas_;
  return static_cast<int64_t>((whole + now / 2) / now);
}

graph::Graph Retarget::graph(int32_t rank) const {
  CHECK(rank >= 0 && rank < ranks(), "rank {} of {}", rank, ranks());
  const int32_t u = replica_of_[index(rank)], place = place_of_[index(rank)];
  const int32_t source = traced_.at[index(u % traced_.count())][index(place)];
  const graph::Graph& first = graphs_[index(traced_.at[0][index(place)])];
  std::map<std::string, size_t> number;
  for (size_t g = 0; g < traced_.groups.size(); ++g) number[traced_.groups[g].name] = g;
  graph::Graph out = graphs_[index(source)];
  out.rank = rank;
  for (size_t n = 0; n < out.nodes.size(); ++n) {
    graph::Node& node = out.nodes[n];
    if (node.type == graph::NodeType::kSend || node.type == graph::NodeType::kReceive) {
      node.comm_peer = rank_at(u, traced_.place_of[index(node.comm_peer)]);
    }
    if (node.type != graph::NodeType::kCollective) continue;
    node.comm_group.clear();
    const auto found = number.find(first.nodes[n].details->pg_name);
    int64_t members = static_cast<int64_t>(graphs_.size());  // of all ranks
    if (found != number.end()) {
      const ReplicaRanks::Joined& group = traced_.groups[found->second];
      const std::vector<std::string>& names = names_[found->second];
      node.details.edit().pg_name = group.data ? names[0] : names[index(u)];
      if (!group.data) continue;
      members = static_cast<int64_t>(group.ranks.size());
    }
    if (node.collective == graph::CollectiveType::kAllGather) {
      node.comm_size = share(node.comm_size, members);
    }
  }
  return out;
}

int64_t Retarget::nodes() const {
  int64_t out = 0;
  for (const int32_t rank : traced_.at[0]) {
    out += static_cast<int64_t>(graphs_[index(rank)].nodes.size()) * replicas_;
  }
  return out;
}

std::string Retarget::brief() const {
  std::vector<std::string> names;
  for (const ReplicaRanks::Joined& group : traced_.groups) {
    if (group.data) names.push_back(group.name);
  }
  std::string which =
      names.empty() ? "collectives of all ranks" : fmt::format("groups {}", fmt::join(names, ", "));
  return fmt::format("{} replicas of {} ranks become {}; data-parallel: {}", traced_.count(),
                     traced_.places(), replicas_, which);
}

Result<TracedRun> read_run(const std::string& prefix, const std::string& comm_groups) {
  TracedRun out;
  if (!comm_groups.empty()) out.groups = TRY(read_comm_groups(comm_groups));
  for (int32_t rank = 0;; ++rank) {
    const std::string path = fmt::format("{}.{}.et", prefix, rank);
    if (rank > 0 && !std::filesystem::exists(path)) break;
    ChakraReadOptions options;
    options.rank = rank;
    out.graphs.push_back(TRY(read_chakra(path, options)));
    for (graph::Node& node : out.graphs.back().nodes) {
      if (node.type != graph::NodeType::kMetadata) continue;
      const CommGroups declared = TRY(process_groups_of(node, path));
      if (declared.empty()) continue;
      for (const auto& [name, ranks] : declared) {
        const auto [known, is_new] = out.groups.try_emplace(name, ranks);
        if (!is_new && known->second != ranks) {
          return unusable(
              fmt::format("{}: declares other ranks for communicator group {}", path, name));
        }
      }
      node.details = {};
    }
  }
  return out;
}

}  // namespace tombolo::chakra
