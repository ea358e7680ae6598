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

Status check_names_of_places(const layout::Parallelism& p, const cluster::Cluster& cluster,
                             const std::string& file) {
  const auto check = [&](const std::string& key, const std::string& name) -> Status {
    if (cluster.find(name)) return {};
    std::vector<std::string> names;
    for (const cluster::Datacenter& each : cluster.datacenters) names.push_back(each.name);
    return unusable(
        fmt::format("{}: parallelism.{}: there is no datacenter \"{}\"", file, key, name),
        one_of(name, names));
  };
  for (const std::string& name : p.first_stage_in) TRY(check("first_stage_in", name));
  for (const std::string& name : p.last_stage_in) TRY(check("last_stage_in", name));
  for (size_t i = 0; i < p.datacenter_per_replica.size(); ++i)
    TRY(check(fmt::format("datacenter_per_replica[{}]", i), p.datacenter_per_replica[i]));
  for (size_t s = 0; s < p.datacenter_per_stage.size(); ++s) {
    const std::vector<std::string>& names = p.datacenter_per_stage[s];
    const std::string key = fmt::format("datacenter_per_stage[{}]", s);
    for (size_t i = 0; i < names.size(); ++i)
      TRY(check(names.size() == 1 ? key : fmt::format("{}[{}]", key, i), names[i]));
  }
  return {};
}

}  // namespace tombolo::plan
