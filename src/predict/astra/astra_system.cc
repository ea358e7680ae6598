#include "predict/astra/astra_system.h"

#include <yaml-cpp/yaml.h>

#include "base/file.h"
#include "base/json.h"

namespace tombolo::astra {
namespace {

using graph::CollectiveType;

constexpr int64_t kFileMax = 1 << 20;
constexpr int64_t kSplitsMax = 1 << 20;

struct Raw {
  SystemSettings settings;
  std::vector<std::string> all_reduce, all_gather, reduce_scatter, all_to_all;
  std::vector<std::string> all_reduce_custom, all_gather_custom, reduce_scatter_custom,
      all_to_all_custom;
  std::string per_node_custom;
};

// A switch is 0 or 1 in ASTRA-sim's files; true and false say the same.
template <class Archive>
void read_switch(Archive& a, const char* key, bool& on) {
  Value value;
  a.optional(key, value);
  if (const bool* flag = value.get<bool>()) {
    on = *flag;
  } else if (const int64_t* number = value.get<int64_t>()) {
    on = *number != 0;
  } else {
    a.check(value.is_null(), key, "is a switch", "0 or 1");
  }
}

// A value that has several names, in ASTRA-sim's versions and in files written for them.
template <class Archive, typename E>
void read_name(Archive& a, const char* key,
               std::initializer_list<std::pair<std::string_view, int>> names, E& out) {
  std::string text;
  a.optional(key, text);
  if (text.empty()) return;
  std::string known;
  bool found = false;
  for (const auto& [name, value] : names) {
    known += (known.empty() ? "" : ", ") + std::string(name);
    if (text != name) continue;
    found = true;
    out = static_cast<E>(value);
  }
  a.check(found, key, "is not one of the known names", "one of " + known);
}

// Keys of ASTRA-sim that change nothing here, as they change nothing there.
template <class Archive>
void skip(Archive& a, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    Value ignored;
    a.optional(key, ignored);
  }
}

template <class Archive>
void describe(Archive& a, Raw& raw) {
  SystemSettings& s = raw.settings;
  a.optional("scheduling-policy", s.order);
  a.optional("collective-optimization", s.all_reduce_shape);
  a.optional("active-chunks-per-dimension", s.active_chunks);
  a.check(s.active_chunks >= 1, "active-chunks-per-dimension", "must be at least 1");
  a.required("preferred-dataset-splits", s.splits);
  a.check(s.splits >= 1 && s.splits <= kSplitsMax, "preferred-dataset-splits",
          "must be between 1 and 2^20");
  a.optional("endpoint-delay", s.endpoint_delay);
  a.check(s.endpoint_delay >= 0 && s.endpoint_delay < int64_t{1} << 50, "endpoint-delay",
          "must be nanoseconds, at least 0");
  a.optional("local-mem-bw", s.memory_bandwidth);
  a.check(s.memory_bandwidth >= 0, "local-mem-bw", "must not be negative");
  a.optional("peak-perf", s.peak_performance);
  a.check(s.peak_performance >= 0, "peak-perf", "must not be negative");
  read_switch(a, "roofline-enabled", s.roofline);
  a.check(!s.roofline || (s.peak_performance > 0 && s.memory_bandwidth > 0), "roofline-enabled",
          "needs peak-perf and local-mem-bw");
  read_switch(a, "replay-only", s.replay_only);
  a.optional("all-reduce-implementation", raw.all_reduce);
  a.optional("all-gather-implementation", raw.all_gather);
  a.optional("reduce-scatter-implementation", raw.reduce_scatter);
  a.optional("all-to-all-implementation", raw.all_to_all);
  a.optional("all-reduce-implementation-custom", raw.all_reduce_custom);
  a.optional("all-gather-implementation-custom", raw.all_gather_custom);
  a.optional("reduce-scatter-implementation-custom", raw.reduce_scatter_custom);
  a.optional("all-to-all-implementation-custom", raw.all_to_all_custom);
  a.optional("per-node-custom-implementation", raw.per_node_custom);

  bool shared_bus = false;
  read_switch(a, "model-shared-bus", shared_bus);
  a.check(!shared_bus, "model-shared-bus", "the LogGP bus is not modelled here", "0");
  read_switch(a, "track-local-mem", s.track_memory);
  a.optional("local-mem-trace-filename", s.memory_trace);
  for (const char* key : {"intra-dimension-scheduling", "intra-dimension-scheduler"}) {
    read_name(a, key, {{"FIFO", 0}, {"SCF", 1}, {"smallestFirst", 1}}, s.chunk_choice);
  }
  for (const char* key : {"inter-dimension-scheduling", "inter-dimension-scheduler"}) {
    read_name(a, key, {{"ascending", 0}, {"baseline", 0}, {"themis", 1}, {"offlineGreedy", 1}},
              s.dimension_order);
  }
  // L, o, g, G and local-reduction-delay belong to the shared bus.
  skip(a, {"L", "o", "g", "G", "local-reduction-delay", "boost-mode", "trace-enabled"});
}

Status take_algorithms(SystemSettings& settings, CollectiveType kind, const char* key,
                       const std::vector<std::string>& names, const std::string& file) {
  for (size_t d = 0; d < names.size(); ++d) {
    const auto choice = network::parse_algorithm(names[d]);
    if (!choice) {
      return unusable(
          fmt::format("{}: {}[{}] = \"{}\": no known algorithm", file, key, d, names[d]),
          "ring, oneRing, direct, direct4, oneDirect, halvingDoubling, "
          "oneHalvingDoubling, doubleBinaryTree or inSwitch");
    }
    settings.algorithms[kind].push_back(*choice);
  }
  return {};
}

Status take_custom(SystemSettings& settings, CollectiveType kind, const char* key,
                   const std::vector<std::string>& prefixes, const std::string& file) {
  if (prefixes.empty()) return {};
  if (prefixes.size() != 1) {
    return unusable(fmt::format("{}: {} has {} entries", file, key, prefixes.size()),
                    "one prefix of files, PREFIX.RANK.et, for all dimensions");
  }
  settings.custom[kind] = prefixes[0];
  return {};
}

// A YAML table from node ids to prefixes. yaml-cpp reports by exception; none leaves this function.
Status take_custom_of_nodes(SystemSettings& settings, const std::string& path) {
  const std::string text = TRY(read_file(path, kFileMax));
  try {
    for (const auto& entry : YAML::Load(text)) {
      settings.custom_of_node[entry.first.as<int64_t>()] = entry.second.as<std::string>();
    }
  } catch (const YAML::Exception& e) {
    return unusable(
        fmt::format("{}:{}: wanted a node and a prefix of files: {}", path, e.mark.line + 1, e.msg),
        "12: path/to/custom_allreduce");
  }
  return {};
}

}  // namespace

Result<SystemSettings> parse_system(const std::string& text, const std::string& name, int line) {
  Raw raw = TRY(read_fields<Raw>(TRY(parse_json(text, name, line)), name));
  SystemSettings& s = raw.settings;
  TRY(take_algorithms(s, CollectiveType::kAllReduce, "all-reduce-implementation", raw.all_reduce,
                      name));
  TRY(take_algorithms(s, CollectiveType::kAllGather, "all-gather-implementation", raw.all_gather,
                      name));
  TRY(take_algorithms(s, CollectiveType::kReduceScatter, "reduce-scatter-implementation",
                      raw.reduce_scatter, name));
  TRY(take_algorithms(s, CollectiveType::kAllToAll, "all-to-all-implementation", raw.all_to_all,
                      name));
  TRY(take_custom(s, CollectiveType::kAllReduce, "all-reduce-implementation-custom",
                  raw.all_reduce_custom, name));
  TRY(take_custom(s, CollectiveType::kAllGather, "all-gather-implementation-custom",
                  raw.all_gather_custom, name));
  TRY(take_custom(s, CollectiveType::kReduceScatter, "reduce-scatter-implementation-custom",
                  raw.reduce_scatter_custom, name));
  TRY(take_custom(s, CollectiveType::kAllToAll, "all-to-all-implementation-custom",
                  raw.all_to_all_custom, name));
  if (!raw.per_node_custom.empty()) {
    TRY(during(take_custom_of_nodes(s, raw.per_node_custom),
               fmt::format("reading per-node-custom-implementation of {}", name)));
  }
  return s;
}

Result<SystemSettings> read_system(const std::string& path) {
  return parse_system(TRY(read_file(path, kFileMax)), path);
}

}  // namespace tombolo::astra
