#include "base/check.h"
#include "base/fields.h"
#include "base/json.h"
#include "spec/graph/graph.h"

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
  const bool sends = node.type == NodeType::kSend || node.type == NodeType::kReceive;
  const NodeDetails& details = *node.details;
  if (Archive::kReads || (collective && node.collective != CollectiveType::kAllReduce)) {
    a.optional("comm_type", node.collective);
  }
  if (Archive::kReads || node.is_cpu_op) a.optional("is_cpu_op", node.is_cpu_op);
  if (Archive::kReads || node.type == NodeType::kCompute || collective) {
    a.optional("duration_ns", node.duration.ns);
  }
  if (Archive::kReads || node.delay.ns != 0) a.optional("delay_ns", node.delay.ns);
  if (Archive::kReads || collective || sends || node.comm_size != 0) {
    a.optional("comm_size", node.comm_size);
    if (Archive::kReads || sends) a.optional("comm_peer", node.comm_peer);
    if (Archive::kReads || node.comm_priority != 0) {
      a.optional("comm_priority", node.comm_priority);
    }
    a.optional("comm_tag", node.comm_tag);
    a.optional("comm_group", node.comm_group);
  }
  if (Archive::kReads || node.num_ops != 0) a.optional("num_ops", node.num_ops);
  if (Archive::kReads || node.tensor_size != 0) a.optional("tensor_size", node.tensor_size);
  if (Archive::kReads || details != NodeDetails{}) {
    NodeDetails said = details;
    a.optional("pg_name", said.pg_name);
    a.optional("involved_dims", said.involved_dims);
    a.optional("inputs", said.inputs);
    a.optional("outputs", said.outputs);
    a.optional("carried_deps", said.carried_deps);
    if (Archive::kReads || said.co_executed_with) {
      a.optional("co_executed_with", said.co_executed_with);
    }
    if (Archive::kReads) node.details = said;
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
  for (size_t r = 0; r < graphs.size(); ++r) {
    CHECK(graphs[r].rank == static_cast<int32_t>(r), "graph {} is of rank {}", r, graphs[r].rank);
    const std::vector<Node>& nodes = graphs[r].nodes;
    for (size_t i = 1; i < nodes.size(); ++i) {
      CHECK(nodes[i - 1].id < nodes[i].id, "rank {}: node {} comes after node {}", r, nodes[i].id,
            nodes[i - 1].id);
    }
  }
  return to_json(write_fields(GraphFile{kGraphVersion, graphs}), 1) + "\n";
}

Result<Graphs> parse_graphs(std::string_view text, const std::string& name) {
  const Value value = TRY(parse_json(text, name));
  Graphs graphs = TRY(read_fields<GraphFile>(value, name)).graphs;
  TRY(during(validate(graphs), "checking " + name));
  return graphs;
}

}  // namespace tombolo::graph
