#include "predict/workload/dlrm.h"

#include <algorithm>

#include "base/time.h"

namespace tombolo::workload {
namespace {

using graph::CollectiveType;
using graph::Node;
using graph::NodeType;

class Writer {
 public:
  explicit Writer(const Dlrm& dlrm) : dlrm_(dlrm) {}

  graph::Graph write() && {
    const int64_t looked_up = exchange("embeddings", {});
    std::vector<int64_t> before;
    for (int64_t i = 0; i < dlrm_.bottom_layers; ++i) {
      before = {compute(fmt::format("bottom {} forward", i), 2, i, before)};
    }
    before.push_back(looked_up);
    const int64_t layers = dlrm_.bottom_layers + dlrm_.top_layers;
    for (int64_t i = dlrm_.bottom_layers; i < layers; ++i) {
      before = {compute(fmt::format("top {} forward", i), 2, i, before)};
    }
    for (int64_t i = layers; i-- > 0;) {
      const bool top = i >= dlrm_.bottom_layers;
      before = {compute(fmt::format("{} {} backward", top ? "top" : "bottom", i), 4, i, before)};
      Node sum;
      sum.name = fmt::format("gradients of {}", i);
      sum.type = NodeType::kCollective;
      sum.collective = CollectiveType::kAllReduce;
      sum.comm_size = parameters(i) * dlrm_.element_bytes;
      add(std::move(sum), before);
      if (i == dlrm_.bottom_layers) exchange("gradients of embeddings", before);
    }
    return std::move(graph_);
  }

 private:
  const Dlrm& dlrm_;
  graph::Graph graph_;

  // Equal layers; the first ones take the rest.
  int64_t parameters(int64_t layer) const {
    const int64_t layers = dlrm_.bottom_layers + dlrm_.top_layers;
    return dlrm_.mlp_parameters / layers + (layer < dlrm_.mlp_parameters % layers ? 1 : 0);
  }

  // What an NPU has looked up for all: as much as it needs itself.
  int64_t exchange(const std::string& name, std::vector<int64_t> after) {
    Node node;
    node.name = name;
    node.type = NodeType::kCollective;
    node.collective = CollectiveType::kAllToAll;
    node.comm_size = dlrm_.batch * dlrm_.vectors * dlrm_.dimension * dlrm_.element_bytes;
    return add(std::move(node), std::move(after));
  }

  int64_t compute(const std::string& name, int64_t operations, int64_t layer,
                  std::vector<int64_t> after) {
    Node node;
    node.name = name;
    node.num_ops = operations * parameters(layer) * dlrm_.batch;
    node.tensor_size = parameters(layer) * dlrm_.element_bytes;
    node.duration = round_to_ns(Seconds{static_cast<double>(node.num_ops) / dlrm_.compute.value});
    return add(std::move(node), std::move(after));
  }

  int64_t add(Node node, std::vector<int64_t> after) {
    node.id = static_cast<int64_t>(graph_.nodes.size());
    std::sort(after.begin(), after.end());
    node.data_deps = std::move(after);
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().id;
  }
};

}  // namespace

Result<graph::Graph> dlrm_graph(const Dlrm& dlrm) {
  for (const auto& [name, value] : {std::pair("mlp_parameters", dlrm.mlp_parameters),
                                    {"bottom_layers", dlrm.bottom_layers},
                                    {"top_layers", dlrm.top_layers},
                                    {"batch", dlrm.batch},
                                    {"vectors", dlrm.vectors},
                                    {"dimension", dlrm.dimension},
                                    {"element_bytes", dlrm.element_bytes}}) {
    if (value < 1 || value > int64_t{1} << 40) {
      return unusable(fmt::format("DLRM: {} = {}: must be between 1 and 2^40", name, value));
    }
  }
  if (!(dlrm.compute.value > 0)) return unusable("DLRM: compute must be positive");
  return Writer(dlrm).write();
}

}  // namespace tombolo::workload
