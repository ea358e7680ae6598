#include "spec/plan/pipeline_ends.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/fields.h"

namespace tombolo::plan {
namespace {

bool allows(const std::vector<std::string>& names, std::string_view datacenter) {
  return names.empty() || std::find(names.begin(), names.end(), datacenter) != names.end();
}

}  // namespace

bool may_begin_in(const layout::Parallelism& p, std::string_view datacenter) {
  return allows(p.first_stage_in, datacenter);
}

bool may_end_in(const layout::Parallelism& p, std::string_view datacenter) {
  return allows(p.last_stage_in, datacenter);
}

bool restrict_ends(layout::Parallelism& p, const cluster::Cluster& part) {
  bool possible = true;
  for (std::vector<std::string>* names : {&p.first_stage_in, &p.last_stage_in}) {
    if (names->empty()) continue;
    std::erase_if(*names, [&](const std::string& name) { return !part.find(name); });
    possible = possible && !names->empty();
  }
  return possible;
}

bool has_fixed_ends(const layout::Parallelism& p) {
  return !p.first_stage_in.empty() || !p.last_stage_in.empty();
}

std::string text_of_ends(const layout::Parallelism& p) {
  std::vector<std::string> given;
  if (!p.first_stage_in.empty())
    given.push_back(fmt::format("first_stage_in = [{}]", fmt::join(p.first_stage_in, ", ")));
  if (!p.last_stage_in.empty())
    given.push_back(fmt::format("last_stage_in = [{}]", fmt::join(p.last_stage_in, ", ")));
  return fmt::format("{}", fmt::join(given, ", "));
}

Status check_names_of_ends(const layout::Parallelism& p, const cluster::Cluster& cluster,
                           const std::string& file) {
  for (const auto& [key, given] : {std::pair("first_stage_in", &p.first_stage_in),
                                   std::pair("last_stage_in", &p.last_stage_in)}) {
    for (const std::string& name : *given) {
      if (cluster.find(name)) continue;
      std::vector<std::string> names;
      for (const cluster::Datacenter& each : cluster.datacenters) names.push_back(each.name);
      return unusable(
          fmt::format("{}: parallelism.{}: there is no datacenter \"{}\"", file, key, name),
          one_of(name, names));
    }
  }
  return {};
}

}  // namespace tombolo::plan
