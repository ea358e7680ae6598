#include "predict/astra/astra_program.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/check.h"
#include "base/hash.h"
#include "spec/chakra/chakra.h"

namespace tombolo::astra {
namespace {

using graph::CollectiveType;
using graph::NodeType;

constexpr int64_t kTensorMax = int64_t{1} << 40;  // bytes; a million of them stay within 64 bits

bool simulated(CollectiveType kind) {
  return kind == CollectiveType::kAllReduce || kind == CollectiveType::kAllGather ||
         kind == CollectiveType::kReduceScatter || kind == CollectiveType::kAllToAll ||
         kind == CollectiveType::kBroadcast;
}

// Compiles the graphs of all ranks into one RankPrograms.
class Compiler {
 public:
  Compiler(const chakra::CommGroups& groups, const network::Topology& topology,
           const SystemSettings& settings, bool names, RankPrograms& out)
      : declared_(groups), topology_(topology), settings_(settings), names_(names), out_(out) {
    for (size_t g = 0; g < out.groups.size(); ++g) {
      numbers_[fmt::format("{}", out.groups[g].id)] = static_cast<int32_t>(g);
    }
  }

  Status add(const graph::Graph& graph, int32_t rank) {
    chakra::CommGroups groups;  // that only this rank declares
    for (const graph::Node& node : graph.nodes) {
      if (node.type != NodeType::kMetadata) continue;
      for (auto& [name, ranks] :
           TRY(chakra::process_groups_of(node, fmt::format("rank {}", rank)))) {
        groups[name] = std::move(ranks);
      }
    }
    Program program;
    TRY(edges(graph, program));
    if (names_) {
      for (const graph::Node& node : graph.nodes) program.names.push_back(node.name);
    }
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      TRY(during(compile(graph.nodes[n], rank, groups, program.nodes[n]),
                 fmt::format("reading node {} of rank {}", graph.nodes[n].id, rank)));
    }
    if (settings_.track_memory) {
      program.tensors =
          TRY(during(tensors_of(graph), fmt::format("reading the tensors of rank {}", rank)));
    }
    out_.programs.push_back(share(std::move(program)));
    return {};
  }

 private:
  const chakra::CommGroups& declared_;
  const network::Topology& topology_;
  const SystemSettings& settings_;
  bool names_;
  RankPrograms& out_;
  std::map<std::string, const Program*> known_;  // by digest
  std::map<std::string, int32_t> numbers_;       // of groups that all ranks declare, once used

  // Ids become positions, dependencies become children.
  static Status edges(const graph::Graph& graph, Program& program) {
    program.nodes.resize(graph.nodes.size());
    std::vector<std::pair<uint32_t, uint32_t>> edges;  // from, to
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const graph::Node& node = graph.nodes[n];
      std::vector<int64_t> dependencies = node.data_deps;
      dependencies.insert(dependencies.end(), node.ctrl_deps.begin(), node.ctrl_deps.end());
      std::sort(dependencies.begin(), dependencies.end());
      dependencies.erase(std::unique(dependencies.begin(), dependencies.end()), dependencies.end());
      for (const int64_t id : dependencies) {
        const auto found =
            std::lower_bound(graph.nodes.begin(), graph.nodes.end(), id,
                             [](const graph::Node& other, int64_t key) { return other.id < key; });
        if (found == graph.nodes.end() || found->id != id) {
          return unusable(
              fmt::format("node {} depends on node {}, which does not exist", node.id, id));
        }
        edges.emplace_back(static_cast<uint32_t>(found - graph.nodes.begin()),
                           static_cast<uint32_t>(n));
      }
      program.nodes[n].dependencies = static_cast<uint32_t>(dependencies.size());
    }
    std::sort(edges.begin(), edges.end());
    for (const auto& [from, to] : edges) {
      Program::Node& parent = program.nodes[from];
      if (parent.children++ == 0)
        parent.first_child = static_cast<uint32_t>(program.children.size());
      program.children.push_back(to);
    }
    return {};
  }

  // Lists of name and bytes in turn. Tensors of no bytes are nothing.
  static Result<std::shared_ptr<const Tensors>> tensors_of(const graph::Graph& graph) {
    auto out = std::make_shared<Tensors>();
    std::map<std::string, uint32_t> known;
    for (const graph::Node& node : graph.nodes) {
      out->nodes.emplace_back(node.id, node.name);
      std::vector<Tensors::Use>& uses = out->uses.emplace_back();
      if (node.type == NodeType::kMetadata) continue;
      for (const bool writes : {false, true}) {
        const std::vector<std::string>& list =
            writes ? node.details->outputs : node.details->inputs;
        for (size_t i = 0; i < list.size(); i += 2) {
          int64_t bytes = -1;
          if (i + 1 < list.size()) {
            const std::string& text = list[i + 1];
            const auto end = text.data() + text.size();
            const auto parsed = std::from_chars(text.data(), end, bytes);
            if (parsed.ec != std::errc() || parsed.ptr != end) bytes = -1;
          }
          if (bytes < 0 || bytes > kTensorMax) {
            return unusable(fmt::format("node {}: its {} are not names and bytes in turn", node.id,
                                        writes ? "outputs" : "inputs"),
                            "\"track-local-mem\": 0");
          }
          if (bytes == 0) continue;
          const auto [entry, is_new] =
              known.try_emplace(list[i], static_cast<uint32_t>(out->names.size()));
          if (is_new) {
            out->names.push_back(list[i]);
            out->bytes.push_back(bytes);
          }
          uses.push_back({entry->second, writes});
        }
      }
    }
    return std::shared_ptr<const Tensors>(std::move(out));
  }

  Status compile(const graph::Node& in, int32_t rank, const chakra::CommGroups& groups,
                 Program::Node& out) {
    out.id = in.id;
    out.type = in.type;
    out.collective = in.collective;
    out.on_host = in.is_cpu_op;
    out.priority = in.comm_priority;
    out.peer = in.comm_peer;
    out.bytes = in.comm_size;
    out.tag = in.comm_tag;
    out.operations = in.num_ops;
    out.tensor_bytes = in.tensor_size;
    out.replay_ns = in.duration.ns == 0 ? 1 : in.duration.ns;
    out.involved_dims = in.details->involved_dims;
    if (settings_.replay_only) return {};
    const bool communicates = in.type == NodeType::kSend || in.type == NodeType::kReceive ||
                              in.type == NodeType::kCollective;
    if (!communicates) return {};
    if (in.is_cpu_op) return unusable("the host cannot communicate (is_cpu_op is set)");
    if (in.comm_size < 0)
      return unusable(fmt::format("comm_size = {}: must not be negative", in.comm_size));
    if (in.type != NodeType::kCollective) {
      TRY(check_span(in.comm_size, 1));
      return check_peer(in, rank);
    }
    if (!simulated(in.collective)) {
      return unusable(fmt::format("{} cannot be simulated", to_name(in.collective)),
                      "ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL; BROADCAST is replayed");
    }
    TRY(find_group(in, rank, groups, out));
    const size_t members = out.group < 0 ? static_cast<size_t>(topology_.npus())
                                         : out_.groups[static_cast<size_t>(out.group)].ranks.size();
    TRY(check_span(in.comm_size, static_cast<double>(members)));
    return find_custom(in, out);
  }

  // No message, and no phase of a collective of `members` members, may be longer than simulated time
  // can represent: each member may receive all other members' bytes.
  Status check_span(int64_t bytes, double members) const {
    constexpr double kBytesPerNs = (1 << 30) / 1e9;  // of a unit of bandwidth
    constexpr double kMost = 1e17;                   // ns: three years
    for (size_t d = 0; d < topology_.dimensions(); ++d) {
      const double bandwidth = topology_.dimension(d).bandwidth;
      if (static_cast<double>(bytes) * members / (bandwidth * kBytesPerNs) < kMost) continue;
      return unusable(fmt::format("comm_size = {}: would take years at bandwidth[{}] = {}", bytes,
                                  d, bandwidth),
                      "faster links, or smaller messages");
    }
    return {};
  }

  Status check_peer(const graph::Node& in, int32_t rank) const {
    if (in.comm_peer < 0 || in.comm_peer >= topology_.npus()) {
      return unusable(
          fmt::format("rank {} of its other end is not one of {}", in.comm_peer, topology_.npus()));
    }
    if (in.comm_peer == rank) return unusable("a rank cannot send to itself");
    return {};
  }

  Status find_group(const graph::Node& in, int32_t rank, const chakra::CommGroups& groups,
                    Program::Node& out) {
    const std::string& name = in.details->pg_name;
    if (name.empty() || name == "0") return {};  // all ranks
    const auto own = groups.find(name);
    const auto number = numbers_.find(name);
    if (own == groups.end() && number != numbers_.end()) {
      out.group = number->second;
    } else {
      const auto found = own == groups.end() ? declared_.find(name) : own;
      if (own == groups.end() && found == declared_.end()) {
        return unusable(fmt::format("communicator group {} is not declared", name),
                        "--comm-group-configuration=FILE with {\"" + name + "\": [0, 1]}");
      }
      Group group = TRY(group_of(name, found->second));
      const auto known = std::find(out_.groups.begin(), out_.groups.end(), group);
      out.group = static_cast<int32_t>(known - out_.groups.begin());
      if (known == out_.groups.end()) out_.groups.push_back(std::move(group));
      if (own == groups.end()) numbers_[name] = out.group;
    }
    if (out_.groups[static_cast<size_t>(out.group)].position(rank) < 0) {
      return unusable(fmt::format("rank {} is not a member of communicator group {}", rank, name));
    }
    return {};
  }

  Result<Group> group_of(const std::string& name, const std::vector<int32_t>& ranks) const {
    int64_t id = -1;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), id);
    if (parsed.ec != std::errc() || id < 0) {
      return unusable(fmt::format("communicator group {}: its name must be a number", name));
    }
    for (const int32_t member : ranks) {
      if (member >= topology_.npus()) {
        return unusable(fmt::format("communicator group {} has rank {}, the network {} NPUs", name,
                                    member, topology_.npus()));
      }
    }
    return Group(id, ranks);
  }

  // Single nodes first, then all of a kind.
  Status find_custom(const graph::Node& in, Program::Node& out) {
    std::string prefix;
    if (const auto node = settings_.custom_of_node.find(in.id);
        node != settings_.custom_of_node.end()) {
      prefix = node->second;
    } else if (const auto kind = settings_.custom.find(in.collective);
               kind != settings_.custom.end()) {
      prefix = kind->second;
    } else {
      return {};
    }
    auto& programs = out_.customs[prefix];
    if (programs == nullptr) programs = std::make_unique<std::vector<Program>>();
    const size_t members = out.group < 0 ? static_cast<size_t>(topology_.npus())
                                         : out_.groups[static_cast<size_t>(out.group)].ranks.size();
    while (programs->size() < members) {
      programs->push_back(TRY(during(read_custom(prefix, programs->size()),
                                     "reading the collective that " + prefix + " spells out")));
    }
    out.custom = programs.get();
    return {};
  }

  Result<Program> read_custom(const std::string& prefix, size_t position) {
    const std::string path = fmt::format("{}.{}.et", prefix, position);
    chakra::ChakraReadOptions options;
    options.rank = static_cast<int32_t>(position);
    const graph::Graph graph = TRY(chakra::read_chakra(path, options));
    if (graph.nodes.empty()) return unusable(path + ": has no node");
    Program program;
    TRY(during(edges(graph, program), "reading " + path));
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const graph::Node& in = graph.nodes[n];
      if (in.type != NodeType::kSend && in.type != NodeType::kReceive &&
          in.type != NodeType::kCompute) {
        return unusable(fmt::format("{}: node {}: {} cannot be part of a collective", path, in.id,
                                    to_name(in.type)),
                        "COMM_SEND_NODE, COMM_RECV_NODE and COMP_NODE can");
      }
      Program::Node& out = program.nodes[n];
      out.id = in.id;
      out.type = in.type;
      out.peer = in.comm_peer;
      out.bytes = in.comm_size;
      out.tag = in.comm_tag;
      out.replay_ns = in.duration.ns == 0 ? 1 : in.duration.ns;
      if (in.type != NodeType::kCompute) {
        const std::string doing = fmt::format("reading node {} of {}", in.id, path);
        TRY(during(check_peer(in, static_cast<int32_t>(position)), doing));
        TRY(during(check_span(in.comm_size, 1), doing));
      }
    }
    return program;
  }

  // Programs that differ in the ids of their nodes alone are one.
  const Program* share(Program program) {
    std::string bytes;
    const auto put = [&bytes](auto... values) {
      (bytes.append(reinterpret_cast<const char*>(&values), sizeof values), ...);
    };
    for (const Program::Node& node : program.nodes) {
      put(node.type, node.collective, node.on_host, node.priority, node.peer, node.group,
          node.dependencies, node.children, node.replay_ns, node.bytes, node.tag, node.operations,
          node.tensor_bytes, node.custom, node.involved_dims.size());
      bytes.append(node.involved_dims.begin(), node.involved_dims.end());
    }
    for (const uint32_t child : program.children) put(child);
    if (program.tensors) {
      for (const std::string& name : program.tensors->names) bytes.append(name).push_back('\0');
      for (const int64_t size : program.tensors->bytes) put(size);
      for (const auto& uses : program.tensors->uses) {
        put(uses.size());
        for (const Tensors::Use& use : uses) put(use.tensor, use.writes);
      }
    }
    const Program*& known = known_[digest(bytes)];
    if (known == nullptr) {
      out_.owned.push_back(std::make_unique<Program>(std::move(program)));
      known = out_.owned.back().get();
    }
    return known;
  }
};

// A Program for one rank stands for all where it names no rank and no group.
Status take_for_all(const network::Topology& topology, RankPrograms& out) {
  for (const Program::Node& node : out.programs[0]->nodes) {
    const bool names_a_rank = node.type == NodeType::kSend || node.type == NodeType::kReceive;
    if (!names_a_rank && node.group < 0) continue;
    return unusable(fmt::format("node {} names {}, so one file cannot stand for all ranks", node.id,
                                names_a_rank ? "a rank" : "a communicator group"),
                    "a file for each rank, without --spmd");
  }
  out.programs.assign(static_cast<size_t>(topology.npus()), out.programs[0]);
  return {};
}

// All ranks run one Program, and nothing in it tells them apart.
void find_out_whether_alike(RankPrograms& out) {
  out.one_for_all =
      std::all_of(out.programs.begin(), out.programs.end(),
                  [&](const Program* program) { return program == out.programs[0]; }) &&
      std::none_of(out.programs[0]->nodes.begin(), out.programs[0]->nodes.end(),
                   [](const Program::Node& node) {
                     return node.type == NodeType::kSend || node.type == NodeType::kReceive ||
                            node.group >= 0 || node.custom != nullptr;
                   });
}

}  // namespace

Group::Group(int64_t id_, std::vector<int32_t> ranks_) : id(id_), ranks(std::move(ranks_)) {
  CHECK(!ranks.empty(), "communicator group {} has no ranks", id);
  for (size_t i = 0; i < ranks.size(); ++i) sorted_.emplace_back(ranks[i], static_cast<int32_t>(i));
  std::sort(sorted_.begin(), sorted_.end());
  const auto twice =
      std::adjacent_find(sorted_.begin(), sorted_.end(),
                         [](const auto& a, const auto& b) { return a.first == b.first; });
  CHECK(twice == sorted_.end(), "rank {} stands twice in communicator group {}", twice->first, id);
}

int32_t Group::position(int32_t rank) const {
  const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), std::pair(rank, 0));
  return found == sorted_.end() || found->first != rank ? -1 : found->second;
}

Result<RankPrograms> make_workload(const std::vector<int32_t>& ranks, const GraphOfRank& graph_of,
                                   std::vector<Group> groups, const network::Topology& topology,
                                   const SystemSettings& settings, bool names) {
  RankPrograms out;
  out.groups = std::move(groups);
  const chakra::CommGroups none;
  Compiler compiler(none, topology, settings, names, out);
  std::vector<const Program*> programs(static_cast<size_t>(topology.npus()));
  for (const int32_t rank : ranks) {
    CHECK(rank >= 0 && rank < topology.npus(), "rank {} of {} NPUs", rank, topology.npus());
    TRY(compiler.add(TRY(graph_of(rank)), rank));
    programs[static_cast<size_t>(rank)] = out.programs.back();
  }
  out.programs = std::move(programs);
  return out;
}

Result<RankPrograms> make_workload(const graph::Graphs& graphs, const chakra::CommGroups& groups,
                                   const network::Topology& topology,
                                   const SystemSettings& settings, bool names) {
  RankPrograms out;
  Compiler compiler(groups, topology, settings, names, out);
  if (graphs.size() != 1 && graphs.size() != static_cast<size_t>(topology.npus())) {
    return unusable(fmt::format("{} graphs for {} NPUs", graphs.size(), topology.npus()));
  }
  for (size_t rank = 0; rank < graphs.size(); ++rank) {
    TRY(compiler.add(graphs[rank], static_cast<int32_t>(rank)));
  }
  if (graphs.size() < static_cast<size_t>(topology.npus())) TRY(take_for_all(topology, out));
  find_out_whether_alike(out);
  return out;
}

Result<RankPrograms> read_workload(const WorkloadFiles& files, const network::Topology& topology,
                                   const SystemSettings& settings) {
  chakra::CommGroups groups;
  if (!files.comm_groups.empty()) groups = TRY(chakra::read_comm_groups(files.comm_groups));
  RankPrograms out;
  Compiler compiler(groups, topology, settings, files.names, out);
  const int32_t count = files.spmd ? 1 : topology.npus();
  for (int32_t rank = 0; rank < count; ++rank) {
    const std::string path = fmt::format("{}.{}.et", files.prefix, rank);
    chakra::ChakraReadOptions options;
    options.rank = rank;
    options.keep_tensors = settings.track_memory;
    TRY(during(compiler.add(TRY(chakra::read_chakra(path, options)), rank), "reading " + path));
  }
  if (files.spmd) TRY(take_for_all(topology, out));
  out.of_traces = true;
  find_out_whether_alike(out);
  return out;
}

}  // namespace tombolo::astra
