#include "lab/islands/scenario_file.h"

#include <algorithm>

#include "base/file.h"
#include "base/toml.h"
#include "lab/islands/layout.h"
#include "spec/plan/job.h"
#include "spec/plan/plan_file.h"

namespace tombolo::islands {
namespace {

struct Source {
  cluster::Cluster cluster;
  double byte_scale = 1;
};

// Only a Plan begins with a brace; only a cluster file has [[datacenter]] outside of a section.
Result<Source> read_source(const std::string& file) {
  const std::string text = TRY(read_file(file));
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') {
    const plan::Plan plan = TRY(plan::parse_plan(text, file));
    return Source{plan.cluster, plan.run.byte_scale};
  }
  const Value value = TRY(parse_toml(text, file));
  if (value.find("datacenter")) return Source{TRY(cluster::read_cluster(value, file, "")), 1};
  const plan::Job job = TRY(plan::parse_job(text, file));
  return Source{job.cluster, job.run.byte_scale};
}

}  // namespace

Result<Emulation> read_emulation(const std::string& file, std::optional<double> byte_scale) {
  Source source = TRY(read_source(file));
  Emulation out{.file = file, .byte_scale = byte_scale.value_or(source.byte_scale)};
  out.hosts = TRY(during(lay_out(source.cluster), "making islands of " + file));
  out.scenario = TRY(
      during(wanem::scenario_of(source.cluster, out.byte_scale), "reading the links of " + file));
  out.cluster = std::move(source.cluster);
  return out;
}

Status check_reload(const Emulation& before, const Emulation& after) {
  const auto pairs = [](const Emulation& emulation) {
    std::vector<std::pair<int, int>> out;
    for (const auto& direction : emulation.scenario.directions) {
      out.emplace_back(direction.from, direction.to);
    }
    std::sort(out.begin(), out.end());
    return out;
  };
  if (before.hosts == after.hosts && pairs(before) == pairs(after)) return {};
  return unusable(
      fmt::format("{}: its datacenters, nodes or linked pairs have changed; while hosts "
                  "are up, only the conditions of links can",
                  after.file),
      "starting again");
}

}  // namespace tombolo::islands
