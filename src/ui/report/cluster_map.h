// A cluster, and which parts of a Plan its datacenters hold, as a map of the page of a decision.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "spec/cluster/cluster.h"
#include "spec/plan/plan.h"
#include "ui/report/planner_page.h"

namespace tombolo::report {

// `holds`: of the datacenter of this name, one line each.
using Holdings = std::function<std::vector<std::string>(const std::string& datacenter)>;
PlannerMap map_of(const cluster::Cluster& cluster, const Holdings& holds);

// "8 pipelines of 2 stages", "stages 0-3 of 4 pipelines". The Plan must outlive it.
Holdings holdings_of(const plan::Plan& plan);

// Rates, latencies and prices: for where labels of the map have no room. No rows without links.
HeatMapTable links_table(const cluster::Cluster& cluster);

}  // namespace tombolo::report
