#include "spec/cluster/cluster.h"

#include <algorithm>

#include "base/check.h"
#include "base/file.h"
#include "base/toml.h"

namespace tombolo::cluster {
namespace {

// A device by its name in the catalog, or by the file that describes it.
Result<Device> named_device(const std::string& name, const std::string& file) {
  if (!name.ends_with(".toml")) return catalog_device(name);
  const std::string path = sibling_path(file, name);
  const std::string text = TRY(read_file(path));
  return read_fields<Device>(TRY(parse_toml(text, path)), path);
}

// A copy of the cluster's table in which names of devices are replaced by the devices themselves,
// so that files and Plans share one description.
Result<Value> with_devices(const Value& table, const std::string& file, const std::string& path) {
  Value out = table;
  const Value* list = table.find("datacenter");
  if (!list || !list->get<Value::Array>()) return out;
  Value::Array datacenters = *list->get<Value::Array>();
  for (size_t i = 0; i < datacenters.size(); ++i) {
    const Value* device = datacenters[i].find("device");
    const std::string* name = device ? device->get<std::string>() : nullptr;
    if (!name) continue;
    Result<Device> known = named_device(*name, file);
    if (!known) {
      known.error().message =
          fmt::format("{}:{}: {}datacenter[{}].device = \"{}\": {}", file, device->line,
                      path.empty() ? "" : path + ".", i, *name, known.error().message);
      return fail(known.error());
    }
    Value replaced = write_fields(*known);
    replaced.line = device->line;
    datacenters[i].set("device", replaced);
  }
  Value replaced(std::move(datacenters));
  replaced.line = list->line;
  out.set("datacenter", replaced);
  return out;
}

}  // namespace

bool WanLink::joins(const std::string& a, const std::string& b) const {
  CHECK(between.size() == 2, "a WAN link between {} datacenters", between.size());
  return (between[0] == a && between[1] == b) || (between[0] == b && between[1] == a);
}

int64_t Cluster::devices() const {
  int64_t count = 0;
  for (const Datacenter& datacenter : datacenters) count += datacenter.devices();
  return count;
}

const Datacenter* Cluster::find(const std::string& name) const {
  for (const Datacenter& datacenter : datacenters) {
    if (datacenter.name == name) return &datacenter;
  }
  return nullptr;
}

const WanLink* Cluster::link(const std::string& a, const std::string& b) const {
  for (const WanLink& candidate : wan) {
    if (candidate.joins(a, b)) return &candidate;
  }
  return nullptr;
}

BytesPerSecond flow_rate(const WanLink& link) {
  CHECK(link.connections >= 1 && link.node_pair_limit.value > 0, "{} connections of {} B/s",
        link.connections, link.node_pair_limit.value);
  BytesPerSecond rate = link.node_pair_limit;
  if (link.path_limit) rate = std::min(rate, *link.path_limit);
  if (link.tcp_window && link.one_way_latency.value > 0) {
    const Seconds round_trip = 2 * link.one_way_latency;
    const auto connections = static_cast<double>(link.connections);
    rate = std::min(rate, connections * (*link.tcp_window / round_trip));
  }
  return rate;
}

Result<Cluster> read_cluster(const Value& table, const std::string& file, const std::string& path) {
  const Value resolved = TRY(with_devices(table, file, path));
  Cluster cluster = TRY(read_fields<Cluster>(resolved, file, path));
  const std::string at = table.line ? fmt::format("{}:{}", file, table.line) : file;
  if (cluster.datacenters.empty()) {
    return unusable(at + ": the cluster has no datacenter", "a [[datacenter]] table");
  }
  for (size_t i = 0; i < cluster.datacenters.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (cluster.datacenters[i].name == cluster.datacenters[j].name) {
        return unusable(
            fmt::format("{}: two datacenters are called \"{}\"", at, cluster.datacenters[i].name));
      }
    }
  }
  for (size_t i = 0; i < cluster.wan.size(); ++i) {
    WanLink& link = cluster.wan[i];
    if (!link.rate_trace.empty()) link.rate_trace = sibling_path(file, link.rate_trace);
    for (const std::string& end : link.between) {
      if (!cluster.find(end)) {
        const Value* entry = resolved.find("wan");
        const auto* entries = entry ? entry->get<Value::Array>() : nullptr;
        const Value* between = entries ? (*entries)[i].find("between") : nullptr;
        const int line = between ? between->line : 0;
        std::vector<std::string> known;
        for (const Datacenter& each : cluster.datacenters) known.push_back(each.name);
        return unusable(fmt::format("{}: wan[{}].between: there is no datacenter \"{}\"",
                                    line ? fmt::format("{}:{}", file, line) : at, i, end),
                        one_of(end, known));
      }
    }
    if (cluster.link(link.between[0], link.between[1]) != &link) {
      return unusable(fmt::format("{}: wan[{}]: the link {} - {} is given twice", at, i,
                                  link.between[0], link.between[1]));
    }
  }
  return cluster;
}

}  // namespace tombolo::cluster
