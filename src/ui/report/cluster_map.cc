#include "ui/report/cluster_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace tombolo::report {
namespace {

std::string plural(size_t count, const char* word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

// "0-3, 6": runs of neighbours.
std::string runs_text(const std::set<int32_t>& numbers) {
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const int32_t first = *at;
    int32_t last = first;
    while (++at != numbers.end() && *at == last + 1) last = *at;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", first);
    if (last > first) text += fmt::format("-{}", last);
  }
  return text;
}

}  // namespace

PlannerMap map_of(const cluster::Cluster& cluster, const Holdings& holds) {
  PlannerMap map;
  const auto place_of = [&](const std::string& name) {
    const auto at = std::find_if(map.places.begin(), map.places.end(),
                                 [&](const PlannerPlace& place) { return place.name == name; });
    return static_cast<size_t>(at - map.places.begin());
  };
  for (const cluster::Datacenter& each : cluster.datacenters) {
    map.places.push_back({.name = each.name,
                          .devices = fmt::format("{} x {}", each.devices(), each.device.name),
                          .holds = holds(each.name)});
  }
  for (const cluster::WanLink& link : cluster.wan) {
    const BytesPerSecond pair = link.node_pair_limit;
    const bool path_binds = link.path_limit && *link.path_limit <= pair;
    map.links.push_back(
        {.from = place_of(link.between[0]),
         .to = place_of(link.between[1]),
         .rate = path_binds ? brief(*link.path_limit) : fmt::format("{} a node pair", brief(pair)),
         .latency = brief(link.one_way_latency)});
  }
  if (!map.links.empty()) map.note = "Links: rate and one-way latency, as the job says.";
  return map;
}

Holdings holdings_of(const plan::Plan& plan) {
  return [&plan](const std::string& datacenter) {
    std::map<int32_t, std::set<int32_t>> stages_of;  // by replica
    for (const layout::Placement& rank : plan.ranks) {
      if (rank.datacenter == datacenter) stages_of[rank.replica].insert(rank.stage);
    }
    std::map<std::set<int32_t>, size_t> replicas_with;
    for (const auto& [replica, stages] : stages_of) ++replicas_with[stages];
    std::vector<std::string> lines;
    for (const auto& [stages, replicas] : replicas_with) {
      const bool whole = std::ssize(stages) == plan.parallelism.pipeline;
      const std::string pipelines = plural(replicas, "pipeline");
      lines.push_back(whole ? fmt::format("{} of {}", pipelines, plural(stages.size(), "stage"))
                            : fmt::format("{} {} of {}", stages.size() == 1 ? "stage" : "stages",
                                          runs_text(stages), pipelines));
    }
    return lines;
  };
}

HeatMapTable links_table(const cluster::Cluster& cluster) {
  HeatMapTable table{.title = "Links between datacenters",
                     .columns = {"between", "a pair of nodes", "all of them", "one-way latency",
                                 "connections", "price"},
                     .figures = 5,
                     .rows = {},
                     .remark = "As the job says; not predicted.",
                     .given = true};
  for (const cluster::WanLink& link : cluster.wan) {
    table.rows.push_back(
        {fmt::format("{} - {}", link.between[0], link.between[1]), brief(link.node_pair_limit),
         link.path_limit ? brief(*link.path_limit) : "no limit", brief(link.one_way_latency),
         fmt::format("{}", link.connections),
         link.price.value > 0 ? fmt::format("{:.3g} USD/GB", link.price.value * 1e9) : "-"});
  }
  return table;
}

}  // namespace tombolo::report
