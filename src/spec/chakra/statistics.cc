#include "spec/chakra/statistics.h"

#include "base/check.h"
#include "spec/chakra/chakra_message.h"

namespace tombolo::chakra {
namespace {

void add_to(int64_t& sum, int64_t more) { sum = more > INT64_MAX - sum ? INT64_MAX : sum + more; }
void count(Statistics::Traffic& traffic, int64_t bytes) {
  ++traffic.nodes;
  add_to(traffic.bytes, bytes);
}

struct Row {
  std::string_view name;
  const Statistics::Traffic* traffic;
};
std::vector<Row> rows(const Statistics& s) {
  std::vector<Row> out;
  for (const auto& entry : enum_names(graph::CollectiveType{})) {
    out.push_back({entry.name, &s.collectives[static_cast<size_t>(entry.value)]});
  }
  out.push_back({"SEND", &s.sends});
  out.push_back({"RECEIVE", &s.receives});
  out.push_back({"MEMORY_LOAD", &s.loads});
  out.push_back({"MEMORY_STORE", &s.stores});
  std::erase_if(out, [](const Row& row) { return row.traffic->nodes == 0; });
  return out;
}

std::string brief_time(SimDuration time) {
  return brief(Seconds{static_cast<double>(time.ns) * 1e-9});
}
std::string brief_bytes(int64_t bytes) { return brief(Bytes{static_cast<double>(bytes)}); }

}  // namespace

void StatisticsBuilder::add(const graph::Node& node) {
  Statistics& s = sums_;
  CHECK(static_cast<size_t>(node.type) < s.by_type.size() &&
            static_cast<size_t>(node.collective) < s.collectives.size(),
        "node {} is of type {} and collective {}", node.id, static_cast<int>(node.type),
        static_cast<int>(node.collective));
  outline_.add(node);
  ++s.nodes;
  ++s.by_type[static_cast<size_t>(node.type)];
  add_to(s.edges, static_cast<int64_t>(node.data_deps.size() + node.ctrl_deps.size()));
  if (node.is_cpu_op) {
    ++s.cpu_ops;
    add_to(s.cpu_time.ns, node.duration.ns);
    return;
  }
  switch (node.type) {
    case graph::NodeType::kCompute:
      add_to(s.num_ops, node.num_ops);
      add_to(s.compute_time.ns, node.duration.ns);
      break;
    case graph::NodeType::kCollective:
      count(s.collectives[static_cast<size_t>(node.collective)], node.comm_size);
      add_to(s.communication_time.ns, node.duration.ns);
      break;
    case graph::NodeType::kSend:
    case graph::NodeType::kReceive:
      count(node.type == graph::NodeType::kSend ? s.sends : s.receives, node.comm_size);
      add_to(s.communication_time.ns, node.duration.ns);
      break;
    case graph::NodeType::kMemoryLoad:
    case graph::NodeType::kMemoryStore:
      count(node.type == graph::NodeType::kMemoryLoad ? s.loads : s.stores, node.tensor_size);
      break;
    case graph::NodeType::kInvalid:
    case graph::NodeType::kMetadata:
      break;
  }
}

Result<Statistics> StatisticsBuilder::finish(const std::string& name) {
  auto verdict = outline_.examine();
  if (!verdict) {
    Error error = std::move(verdict).error();
    error.message = name + ": " + error.message;
    return fail(std::move(error));
  }
  Statistics out = std::move(sums_);
  for (const Outline::BadEdge& edge : verdict->bad) {
    ++(edge.fault == Outline::Fault::kMissing  ? out.missing
       : edge.fault == Outline::Fault::kItself ? out.itself
                                               : out.cyclic);
  }
  out.critical_path = verdict->critical_path;
  out.critical_nodes = std::move(verdict->critical_nodes);
  return out;
}

std::string Statistics::full() const {
  std::string out = fmt::format("nodes               {}\n", nodes);
  for (const auto& entry : enum_names(graph::NodeType{})) {
    const int64_t some = by_type[static_cast<size_t>(entry.value)];
    if (some > 0) out += fmt::format("  {:<17} {}\n", entry.name, some);
  }
  if (cpu_ops > 0) out += fmt::format("  on the host       {}\n", cpu_ops);
  out += fmt::format("edges               {}\n", edges);
  if (missing + itself + cyclic > 0) {
    out +=
        fmt::format("  cannot be         {}: {} to missing nodes, {} to their own, {} on cycles\n",
                    missing + itself + cyclic, missing, itself, cyclic);
  }
  for (const Row& row : rows(*this)) {
    out += fmt::format("{:<19} {} in {}\n", row.name, brief_bytes(row.traffic->bytes),
                       row.traffic->nodes);
  }
  if (num_ops > 0) out += fmt::format("operations          {:.6g}\n", static_cast<double>(num_ops));
  out += fmt::format("compute time        {}\n", brief_time(compute_time));
  if (communication_time.ns > 0) {
    out +=
        fmt::format("communication time  {} (as the file says)\n", brief_time(communication_time));
  }
  if (cpu_time.ns > 0) out += fmt::format("host time           {}\n", brief_time(cpu_time));
  out += fmt::format("critical path       {} through {} nodes\n", brief_time(critical_path),
                     critical_nodes.size());
  return out;
}

Value Statistics::to_value() const {
  Value out(Value::Table{});
  out.set("nodes", nodes);
  Value types(Value::Table{});
  for (const auto& entry : enum_names(graph::NodeType{})) {
    const int64_t some = by_type[static_cast<size_t>(entry.value)];
    if (some > 0) types.set(std::string(entry.name), some);
  }
  out.set("nodes_by_type", std::move(types));
  out.set("cpu_ops", cpu_ops);
  out.set("edges", edges);
  Value bad(Value::Table{});
  bad.set("missing", missing);
  bad.set("itself", itself);
  bad.set("cyclic", cyclic);
  out.set("bad_edges", std::move(bad));
  Value traffic(Value::Table{});
  for (const Row& row : rows(*this)) {
    Value entry(Value::Table{});
    entry.set("nodes", row.traffic->nodes);
    entry.set("bytes", row.traffic->bytes);
    traffic.set(std::string(row.name), std::move(entry));
  }
  out.set("traffic", std::move(traffic));
  out.set("num_ops", num_ops);
  out.set("compute_ns", compute_time.ns);
  out.set("communication_ns", communication_time.ns);
  out.set("cpu_ns", cpu_time.ns);
  out.set("critical_path_ns", critical_path.ns);
  Value::Array path(critical_nodes.begin(), critical_nodes.end());
  out.set("critical_path_nodes", std::move(path));
  return out;
}

// --- Drawing -------------------------------------------------------------------------------------

namespace {

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : brief_name(text)) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  return out + "\"";
}

std::string_view look_of(const graph::Node& node) {
  if (node.is_cpu_op) return "shape=ellipse";
  switch (node.type) {
    case graph::NodeType::kCompute:
      return "shape=box, fillcolor=\"#cfe2f3\"";
    case graph::NodeType::kSend:
    case graph::NodeType::kReceive:
      return "shape=cds, fillcolor=\"#fce5cd\"";
    case graph::NodeType::kCollective:
      return "shape=hexagon, fillcolor=\"#f9cb9c\"";
    case graph::NodeType::kMemoryLoad:
    case graph::NodeType::kMemoryStore:
      return "shape=cylinder, fillcolor=\"#d9ead3\"";
    case graph::NodeType::kInvalid:
    case graph::NodeType::kMetadata:
      break;
  }
  return "shape=note";
}

}  // namespace

std::string dot_begin(const std::string& name) {
  return fmt::format(
      "digraph {} {{\n  node [style=filled, fillcolor=white, fontname=\"sans-serif\"];\n",
      in_quotes(name));
}

std::string dot_lines(const graph::Node& node) {
  std::string label = fmt::format("{} {}", node.id, node.name);
  if (node.duration.ns > 0) label += ", " + brief_time(node.duration);
  std::string out = fmt::format("  {} [label={}, {}];\n", node.id, in_quotes(label), look_of(node));
  for (const int64_t id : node.data_deps) out += fmt::format("  {} -> {};\n", id, node.id);
  for (const int64_t id : node.ctrl_deps) {
    out += fmt::format("  {} -> {} [style=dashed];\n", id, node.id);
  }
  return out;
}

std::string dot_end() { return "}\n"; }

}  // namespace tombolo::chakra
