#include "predict/sim/batch_steering.h"

#include <algorithm>

#include "spec/plan/adaptive_batch.h"

namespace tombolo::sim {
namespace {

bool is_batch_pass(const graph::Node& node) {
  return node.type == graph::NodeType::kCompute && node.action && node.action->microbatch >= 0;
}

}  // namespace

BatchSteering::BatchSteering(const plan::Plan& plan, const graph::Graphs& graphs,
                             int64_t iterations)
    : plan_(plan),
      iterations_(iterations),
      controller_(tune::batch_options(plan, plan::microbatches_of_all(plan))) {
  for (const graph::Graph& graph : graphs) {
    for (const graph::Node& node : graph.nodes) {
      if (!is_batch_pass(node)) continue;
      Open& open = open_[{graph.rank, node.iteration}];
      ++open.left;
      open.microbatches = std::max<int64_t>(open.microbatches, node.action->microbatch + 1);
    }
  }
}

void BatchSteering::finished(const graph::Graph& graph, size_t number, const Span& span) {
  const graph::Node& node = graph.nodes[number];
  if (!is_batch_pass(node)) return;
  const auto at = open_.find({graph.rank, node.iteration});
  Open& open = at->second;
  open.computing += span.end - span.start;
  if (!open.start) open.start = span.start;
  if (open.last == node.action) open.waited += span.start - open.last_end;
  open.last = node.action;
  open.last_end = span.end;
  if (--open.left > 0) return;
  const tune::PassTimes report{.microbatches = open.microbatches,
                               .computing = seconds(open.computing),
                               .passes = seconds(span.end - *open.start - open.waited)};
  open_.erase(at);
  auto decided = controller_.add(graph.rank, node.iteration, report);
  if (!decided) return;
  if (decided->first_iteration > iterations_) return;  // as in a run
  controller_.settle(true);
  decisions_.push_back(std::move(*decided));
}

}  // namespace tombolo::sim
