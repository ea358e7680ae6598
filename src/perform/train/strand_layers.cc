#include "perform/train/strand_layers.h"

namespace tombolo::train {
namespace {

// What ends a layer is waited for by all that begins the next: gradients of weights as well, as chain() has it.
void add_strand(std::vector<StrandOperator>& out, const StrandLayers& layers, int32_t strand) {
  const bool forward = strand == 0;
  const std::span<LayerPass* const> passes = forward ? layers.forward : layers.backward;
  std::vector<size_t> ends;
  for (size_t i = 0; i < passes.size(); ++i) {
    LayerPass* const pass = passes[i];
    LayerPass* const before = i > 0 ? passes[i - 1] : nullptr;
    const size_t first = out.size();
    const auto steps = forward ? forward_steps(layers.meeting)
                               : backward_steps(layers.meeting, pass->options().gather_again);
    std::vector<bool> waited_for(steps.size());
    for (const LayerStep& step : steps) {
      StrandOperator op{.name = step.name,
                        .stream = step.communicates ? layers.link : Stream::kCompute,
                        .strand = strand,
                        .async = step.async};
      if (passes.size() > 1) op.name += fmt::format(".{}", i + 1);
      if (step.after.empty()) op.after = ends;
      for (const size_t number : step.after) {
        op.after.push_back(first + number);
        waited_for[number] = true;
      }
      op.work = [pass, op = step.op] { pass->perform(op); };
      if (before && step.after.empty()) {
        op.work = [pass, before, forward, op = step.op] {
          forward ? pass->begin(before->result()) : pass->begin_backward(before->result());
          pass->perform(op);
        };
      }
      out.push_back(std::move(op));
    }
    ends.clear();
    for (size_t number = 0; number < steps.size(); ++number) {
      if (!waited_for[number]) ends.push_back(first + number);
    }
  }
}

}  // namespace

std::vector<StrandOperator> operators_of(const StrandLayers& layers) {
  std::vector<StrandOperator> out;
  add_strand(out, layers, 0);
  add_strand(out, layers, 1);
  return out;
}

}  // namespace tombolo::train
