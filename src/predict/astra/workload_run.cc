#include "predict/astra/workload_run.h"

#include <algorithm>
#include <array>

namespace tombolo::astra {
namespace {

using graph::Node;
using graph::NodeType;

// Per stage, what the graph of one of its ranks counts.
std::vector<WorkloadCount> count_stages(const workload::Workload& workload) {
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

// Whom every rank meets: ranks of a stage do the same, so that one graph of each stage tells.
// O(ranks) and the graphs of one pipeline.
Encounters encounters_of(const workload::Workload& workload) {
  Encounters out;
  std::array<size_t, workload::Workload::kKinds> first{};  // group of a kind
  for (size_t kind = 0; kind < workload::Workload::kKinds; ++kind) {
    const workload::Workload::Groups& g = workload.groups_of(kind);
    first[kind] = out.groups.size();
    if (g.size() < 2 || g.size() == static_cast<size_t>(workload.ranks())) continue;
    for (size_t i = 0; i < g.lists.bases.size(); ++i) {
      out.groups.emplace_back(g.first_name + static_cast<int64_t>(i), g.lists.members(i));
    }
  }
  struct Stage {
    std::vector<size_t> kinds;     // of groups, in the order in which they are first named
    std::vector<int32_t> offsets;  // of ranks that it exchanges messages with
  };
  std::vector<Stage> stages;
  for (const int32_t rank : workload.stages()) {
    Stage stage;
    const auto note = [](auto& list, auto value) {
      if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
    };
    const graph::Graph graph = workload.graph(rank, false);
    for (const Node& node : graph.nodes) {
      if (node.type == NodeType::kSend || node.type == NodeType::kReceive) {
        note(stage.offsets, node.comm_peer - rank);
      } else if (node.type == NodeType::kCollective && node.details->pg_name.empty()) {
        out.all_meet = true;
      } else if (node.type == NodeType::kCollective) {
        note(stage.kinds, workload::Workload::kind_index(node));
      }
    }
    stages.push_back(std::move(stage));
  }
  for (int32_t rank = 0; rank < workload.ranks(); ++rank) {
    const Stage& stage = stages[static_cast<size_t>(workload.stage_of(rank))];
    out.programs.push_back(static_cast<uint64_t>(workload.stage_of(rank)) + 1);
    auto& peers = out.peers.emplace_back();
    for (const int32_t offset : stage.offsets) peers.push_back({rank + offset});
    auto& joins = out.joins.emplace_back();
    for (const size_t kind : stage.kinds) {
      joins.push_back(static_cast<int32_t>(first[kind]) +
                      workload.groups_of(kind).of_rank[static_cast<size_t>(rank)]);
    }
  }
  return out;
}

class Run {
 public:
  Run(const workload::Workload& workload, const network::Topology& topology,
      const SystemSettings& settings, const WorkloadRunOptions& options)
      : workload_(workload),
        topology_(topology),
        settings_(settings),
        options_(options),
        stages_(count_stages(workload)),
        met_(encounters_of(workload)) {}

  Result<WorkloadAnswer> run() {
    for (int32_t rank = 0; rank < workload_.ranks(); ++rank) {
      const WorkloadCount& stage = count_of(rank);
      out_.count.nodes += stage.nodes;
      out_.count.computations += stage.computations;
      out_.count.collectives += stage.collectives;
      out_.count.messages += stage.messages;
    }
    out_.not_collapsed = why_not_classes(options_.machine, settings_);
    if (!out_.not_collapsed.empty()) return run_all();
    if (!options_.collapse) {
      out_.not_collapsed = "as asked for";
    } else if (TRY(run_classes())) {
      return std::move(out_);
    }
    return run_all();
  }

 private:
  const workload::Workload& workload_;
  const network::Topology& topology_;
  const SystemSettings& settings_;
  const WorkloadRunOptions& options_;
  std::vector<WorkloadCount> stages_;
  Encounters met_;
  WorkloadAnswer out_;

  const WorkloadCount& count_of(int32_t rank) const {
    return stages_[static_cast<size_t>(workload_.stage_of(rank))];
  }

  Result<RankPrograms> programs_of(const std::vector<int32_t>& ranks) const {
    int64_t nodes = 0;
    for (const int32_t rank : ranks) nodes += count_of(rank).nodes;
    if (nodes > options_.nodes_max) {
      std::string why = out_.not_collapsed;
      if (!why.empty()) why = "; " + why;
      return unusable(fmt::format("{} ranks have to be simulated, with {} nodes, more than {}{}",
                                  ranks.size(), nodes, options_.nodes_max, why),
                      "--granularity=stage; or a network whose dimensions fit the groups of ranks");
    }
    return make_workload(
        ranks,
        [this](int32_t rank) -> Result<graph::Graph> { return workload_.graph(rank, false); },
        met_.groups, topology_, settings_, !options_.machine.observers.empty());
  }

  // False, with the reason: this would not be exact.
  Result<bool> run_classes() {
    Result<RankClasses> classes = find_classes(met_, topology_, settings_);
    if (!classes) {
      out_.not_collapsed = classes.error().message;
      return false;
    }
    const RankPrograms programs = TRY(programs_of(classes->first));
    if (messages_are_ambiguous(programs, *classes)) {
      out_.not_collapsed = "messages to several ranks of one class agree in tag and size";
      return false;
    }
    auto answer = TRY(
        astra::run_classes(topology_, settings_, programs, options_.machine, std::move(*classes)));
    if (!answer) {
      out_.not_collapsed = options_.machine.law == NetworkLaw::kFluid
                               ? "messages of ranks that are alike share links differently"
                               : "members of one class do not end a collective together";
      return false;
    }
    out_.answer = std::move(*answer);
    return true;
  }

  Result<WorkloadAnswer> run_all() {
    std::vector<int32_t> ranks(static_cast<size_t>(workload_.ranks()));
    for (size_t r = 0; r < ranks.size(); ++r) ranks[r] = static_cast<int32_t>(r);
    const RankPrograms programs = TRY(programs_of(ranks));
    out_.answer = TRY(run_astra(topology_, settings_, programs, options_.machine, false));
    return std::move(out_);
  }
};

}  // namespace

Result<WorkloadAnswer> run_workload(const workload::Workload& workload,
                                    const network::Topology& topology,
                                    const SystemSettings& settings,
                                    const WorkloadRunOptions& options) {
  if (workload.ranks() != topology.npus()) {
    return unusable(
        fmt::format("the job has {} ranks, the network {} NPUs", workload.ranks(), topology.npus()),
        "a network whose dimensions multiply to the number of ranks");
  }
  return Run(workload, topology, settings, options).run();
}

}  // namespace tombolo::astra
