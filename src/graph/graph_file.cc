#include "graph/graph_file.h"

#include "base/fields.h"
#include "base/json.h"

namespace tombolo::graph {
namespace {

struct GraphFile {
  int tombolo_graph = kGraphVersion;
  Graphs graphs;
};

}  // namespace

// Outside the unnamed namespace: fields.h finds descriptions next to their types.
template <class Archive>
void describe(Archive& a, Node& node) {
  a.required("id", node.id);
  a.required("name", node.name);
  a.required("type", node.type);
  const bool collective = node.type == NodeType::kCollective;
  if (Archive::kReads || node.type == NodeType::kCompute || collective) {
    a.optional("duration_ns", node.duration.ns);
  }
  if (Archive::kReads || node.type != NodeType::kCompute) {
    a.optional("comm_size", node.comm_size);
    if (Archive::kReads || !collective) a.optional("comm_peer", node.comm_peer);
    a.optional("comm_tag", node.comm_tag);
    a.optional("comm_group", node.comm_group);
  }
  a.optional("data_deps", node.data_deps);
  a.optional("ctrl_deps", node.ctrl_deps);
}

template <class Archive>
void describe(Archive& a, Graph& graph) {
  a.required("rank", graph.rank);
  a.required("nodes", graph.nodes);
}

namespace {

template <class Archive>
void describe(Archive& a, GraphFile& file) {
  a.required("tombolo_graph", file.tombolo_graph);
  a.check(file.tombolo_graph == kGraphVersion, "tombolo_graph",
          fmt::format("this program reads version {}", kGraphVersion));
  a.required("graphs", file.graphs);
}

}  // namespace

std::string to_json_text(const Graphs& graphs) {
  return to_json(write_fields(GraphFile{kGraphVersion, graphs}), 1) + "\n";
}

Result<Graphs> parse_graphs(std::string_view text, const std::string& name) {
  const Value value = TRY(parse_json(text, name));
  Graphs graphs = TRY(read_fields<GraphFile>(value, name)).graphs;
  TRY(during(validate(graphs), "checking " + name));
  return graphs;
}

}  // namespace tombolo::graph
