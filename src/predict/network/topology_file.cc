#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "base/file.h"
#include "predict/network/topology.h"

// yaml-cpp reports by exception; none leaves this file.

namespace tombolo::network {
namespace {

constexpr int64_t kTopologyFileMax = 1 << 20;
const std::vector<std::string> kKeys = {"topology", "npus_count", "bandwidth", "latency",
                                        "flow-bandwidth"};

template <typename T>
Result<std::vector<T>> read_list(const YAML::Node& file, const std::string& key, const char* wanted,
                                 const std::string& name) {
  const YAML::Node list = file[key];
  if (!list) {
    return unusable(fmt::format("{}: {} is missing", name, key),
                    fmt::format("{}: [ {} ]", key, wanted));
  }
  if (!list.IsSequence()) {
    return unusable(fmt::format("{}:{}: {}: wanted a list, one entry per dimension", name,
                                list.Mark().line + 1, key),
                    fmt::format("{}: [ {} ]", key, wanted));
  }
  std::vector<T> out;
  for (const YAML::Node& entry : list) {
    try {
      out.push_back(entry.as<T>());
    } catch (const YAML::Exception&) {
      return unusable(
          fmt::format("{}:{}: {}[{}] = {}: cannot be read", name, entry.Mark().line + 1, key,
                      out.size(), entry.IsScalar() ? entry.Scalar() : "(a list or table)"),
          fmt::format("{}: [ {} ]", key, wanted));
    }
  }
  return out;
}

Result<Topology> from_yaml(const YAML::Node& file, const std::string& name) {
  if (!file.IsMap()) {
    return unusable(name + ": wanted the keys topology, npus_count, bandwidth, latency");
  }
  for (const auto& entry : file) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "(not a text)";
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      const std::string nearest = nearest_name(key, kKeys);
      return unusable(fmt::format("{}:{}: unknown key {}", name, entry.first.Mark().line + 1, key),
                      nearest.empty() ? "topology, npus_count, bandwidth, latency" : nearest);
    }
  }
  const auto blocks = TRY(read_list<std::string>(file, "topology", "Ring", name));
  const auto npus = TRY(read_list<int32_t>(file, "npus_count", "8", name));
  const auto bandwidth = TRY(read_list<double>(file, "bandwidth", "50.0", name));
  const auto latency = TRY(read_list<double>(file, "latency", "500.0", name));
  const auto check_length = [&](const char* key, size_t length) -> Status {
    if (length == blocks.size()) return {};
    return unusable(
        fmt::format("{}: {} has {} entries, topology has {}", name, key, length, blocks.size()),
        "one entry per dimension in every list");
  };
  TRY(check_length("npus_count", npus.size()));
  TRY(check_length("bandwidth", bandwidth.size()));
  TRY(check_length("latency", latency.size()));
  std::vector<Dimension> dimensions;
  for (size_t d = 0; d < blocks.size(); ++d) {
    const auto block = from_name<Block>(blocks[d]);
    if (!block) {
      return unusable(
          fmt::format("{}: topology[{}] = {}: is not one of the known blocks", name, d, blocks[d]),
          "one of Ring, FullyConnected, Switch, WAN");
    }
    dimensions.push_back({*block, npus[d], bandwidth[d], latency[d]});
  }
  if (const YAML::Node flow = file["flow-bandwidth"]; flow && !dimensions.empty()) {
    try {
      dimensions.back().flow_bandwidth = flow.as<double>();
    } catch (const YAML::Exception&) {
      return unusable(
          fmt::format("{}:{}: flow-bandwidth: cannot be read", name, flow.Mark().line + 1),
          "flow-bandwidth: 0.1");
    }
  }
  return during(Topology::create(std::move(dimensions)), "reading " + name);
}

}  // namespace

Result<Topology> parse_topology(const std::string& text, const std::string& name) {
  try {
    return from_yaml(YAML::Load(text), name);
  } catch (const YAML::Exception& e) {
    return unusable(
        fmt::format("{}:{}: {}", name, e.mark.line + 1, e.msg),
        "topology: [ Ring ], npus_count: [ 8 ], bandwidth: [ 50.0 ], latency: [ 500.0 ], "
        "a line each");
  }
}

Result<Topology> read_topology(const std::string& path) {
  return parse_topology(TRY(read_file(path, kTopologyFileMax)), path);
}

}  // namespace tombolo::network
