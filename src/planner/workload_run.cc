#include "planner/workload_run.h"

#include <algorithm>

namespace tombolo::planner {
namespace {

using graph::Node;
using graph::NodeType;

// Per stage, what the graph of one of its ranks counts.
std::vector<WorkloadCount> count_stages(const Workload& workload) {
  std::vector<WorkloadCount> out;
  for (const int32_t rank : workload.stages()) {
    WorkloadCount count;
    const graph::Graph graph = workload.graph(rank, false);
    for (const Node& node : graph.nodes) {
      ++count.nodes;
      count.computations += node.type == NodeType::kCompute;
      count.collectives += node.type == NodeType::kCollective;
      count.messages += node.type == NodeType::kSend;
    }
    out.push_back(count);
  }
  return out;
}

class Run {
 public:
  Run(const Workload& workload, const network::Topology& topology,
      const sim::SystemSettings& settings, const WorkloadRunOptions& options)
      : workload_(workload),
        topology_(topology),
        settings_(settings),
        options_(options),
        stages_(count_stages(workload)),
        met_(workload.encounters()) {}

  Result<WorkloadAnswer> run() {
    for (int32_t rank = 0; rank < workload_.ranks(); ++rank) {
      const WorkloadCount& stage = count_of(rank);
      out_.count.nodes += stage.nodes;
      out_.count.computations += stage.computations;
      out_.count.collectives += stage.collectives;
      out_.count.messages += stage.messages;
    }
    out_.not_collapsed = sim::why_not_classes(options_.machine);
    if (!out_.not_collapsed.empty()) return run_all();
    if (!options_.collapse) {
      out_.not_collapsed = "as asked for";
    } else if (TRY(run_classes())) {
      return std::move(out_);
    }
    return run_all();
  }

 private:
  const Workload& workload_;
  const network::Topology& topology_;
  const sim::SystemSettings& settings_;
  const WorkloadRunOptions& options_;
  std::vector<WorkloadCount> stages_;
  sim::Encounters met_;
  WorkloadAnswer out_;

  const WorkloadCount& count_of(int32_t rank) const {
    return stages_[static_cast<size_t>(workload_.stage_of(rank))];
  }

  Result<sim::Workload> programs_of(const std::vector<int32_t>& ranks) const {
    int64_t nodes = 0;
    for (const int32_t rank : ranks) nodes += count_of(rank).nodes;
    if (nodes > options_.nodes_max) {
      std::string why = out_.not_collapsed;
      if (!why.empty()) why = "; " + why;
      return unusable(fmt::format("{} ranks have to be simulated, with {} nodes, more than {}{}",
                                  ranks.size(), nodes, options_.nodes_max, why),
                      "--granularity=stage; or a network whose dimensions fit the groups of ranks");
    }
    return sim::make_workload(
        ranks,
        [this](int32_t rank) -> Result<graph::Graph> { return workload_.graph(rank, false); },
        met_.groups, topology_, settings_, !options_.machine.observers.empty());
  }

  // False, with the reason: this would not be exact.
  Result<bool> run_classes() {
    Result<sim::RankClasses> classes = sim::find_classes(met_, topology_, settings_);
    if (!classes) {
      out_.not_collapsed = classes.error().message;
      return false;
    }
    const sim::Workload programs = TRY(programs_of(classes->first));
    if (sim::messages_are_ambiguous(programs, *classes)) {
      out_.not_collapsed = "messages to several ranks of one class agree in tag and size";
      return false;
    }
    auto answer = TRY(
        sim::run_classes(topology_, settings_, programs, options_.machine, std::move(*classes)));
    if (!answer) {
      out_.not_collapsed = "members of one class do not end a collective together";
      return false;
    }
    out_.answer = std::move(*answer);
    return true;
  }

  Result<WorkloadAnswer> run_all() {
    std::vector<int32_t> ranks(static_cast<size_t>(workload_.ranks()));
    for (size_t r = 0; r < ranks.size(); ++r) ranks[r] = static_cast<int32_t>(r);
    const sim::Workload programs = TRY(programs_of(ranks));
    out_.answer = TRY(sim::run_astra(topology_, settings_, programs, options_.machine, false));
    return std::move(out_);
  }
};

}  // namespace

sim::Encounters Workload::encounters() const {
  sim::Encounters out;
  std::array<size_t, kKinds> first{};  // group of a kind
  for (size_t kind = 0; kind < kKinds; ++kind) {
    const Groups& g = groups_[kind];
    first[kind] = out.groups.size();
    if (g.size() < 2 || g.size() == static_cast<size_t>(ranks())) continue;
    for (size_t i = 0; i < g.lists.bases.size(); ++i) {
      out.groups.emplace_back(g.first_name + static_cast<int64_t>(i), g.lists.members(i));
    }
  }
  struct Stage {
    std::vector<size_t> kinds;     // of groups, in the order in which they are first named
    std::vector<int32_t> offsets;  // of ranks that it exchanges messages with
  };
  std::vector<Stage> stages;
  for (const int32_t rank : stage_offsets_) {
    Stage stage;
    const auto note = [](auto& list, auto value) {
      if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
    };
    for (const Node& node : graph(rank, false).nodes) {
      if (node.type == NodeType::kSend || node.type == NodeType::kReceive) {
        note(stage.offsets, node.comm_peer - rank);
      } else if (node.type == NodeType::kCollective && node.details->pg_name.empty()) {
        out.all_meet = true;
      } else if (node.type == NodeType::kCollective) {
        note(stage.kinds, static_cast<size_t>(node.comm_tag % kKinds));
      }
    }
    stages.push_back(std::move(stage));
  }
  for (int32_t rank = 0; rank < ranks(); ++rank) {
    const Stage& stage = stages[static_cast<size_t>(stage_of(rank))];
    out.programs.push_back(static_cast<uint64_t>(stage_of(rank)) + 1);
    auto& peers = out.peers.emplace_back();
    for (const int32_t offset : stage.offsets) peers.push_back({rank + offset});
    auto& joins = out.joins.emplace_back();
    for (const size_t kind : stage.kinds) {
      joins.push_back(static_cast<int32_t>(first[kind]) +
                      groups_[kind].of_rank[static_cast<size_t>(rank)]);
    }
  }
  return out;
}

Result<WorkloadAnswer> run_workload(const Workload& workload, const network::Topology& topology,
                                    const sim::SystemSettings& settings,
                                    const WorkloadRunOptions& options) {
  if (workload.ranks() != topology.npus()) {
    return unusable(
        fmt::format("the job has {} ranks, the network {} NPUs", workload.ranks(), topology.npus()),
        "a network whose dimensions multiply to the number of ranks");
  }
  return Run(workload, topology, settings, options).run();
}

}  // namespace tombolo::planner
