#include "spec/plan/gradient_groups.h"

#include <cmath>

#include "base/check.h"

namespace tombolo::plan {
namespace {

// Embedding, each layer, and norm and head: what a stage has of them.
std::vector<model::Slice> units_of(const model::Slice& stage) {
  std::vector<model::Slice> units;
  if (stage.embedding) units.push_back({stage.first_layer, 0, true, false});
  for (int64_t l = 0; l < stage.layers; ++l) {
    units.push_back({stage.first_layer + l, 1, false, false});
  }
  if (stage.head) units.push_back({stage.first_layer + stage.layers, 0, false, true});
  if (units.empty()) units.push_back(stage);
  return units;
}

// Appends the next group to one that is too small, or is followed by one that is.
void join(GradientGroup& group, const GradientGroup& next) {
  group.slice.layers += next.slice.layers;
  group.slice.embedding = group.slice.embedding || next.slice.embedding;
  group.slice.head = group.slice.head || next.slice.head;
  group.bytes += next.bytes;
}

// A group before it has bytes: parameters up to its end, and passes up to its begin and its end.
struct Span {
  model::Slice slice;
  int64_t parameters = 0;
  Flops begin, end;
};

// One span for each unit. The last unit gets what the units before it leave of the stage: a tied
// head next to its embedding has no matrix of its own, but counted alone it would count a copy.
std::vector<Span> spans_of(const model::Model& model, const model::Slice& stage) {
  std::vector<Span> spans;
  int64_t parameters = 0;
  Flops flops;
  for (const model::Slice& unit : units_of(stage)) {
    Span span{unit, 0, flops, flops + model::forward_flops(model, unit, 1)};
    flops = span.end;
    if (!unit.head) parameters += model::parameters(model, unit);
    span.parameters = unit.head ? model::parameters(model, stage) : parameters;
    spans.push_back(span);
  }
  return spans;
}

// The bytes of `part` of `all` parameters, in whole elements: exactly theirs where the stage is not
// divided among shards.
double share_of(Bytes gradients, int64_t part, int64_t all, double element_bytes) {
  if (part == all) return gradients.value;
  if (gradients.value == real(all) * element_bytes) return real(part) * element_bytes;
  const double elements = gradients.value / element_bytes * real(part) / real(all);
  return std::floor(elements) * element_bytes;
}

}  // namespace

std::vector<GradientGroup> gradient_groups(const model::Model& model, const model::Slice& stage,
                                           Bytes gradients, double element_bytes, Bytes floor) {
  CHECK(element_bytes > 0 && gradients.value >= 0, "{} bytes of gradients in elements of {}",
        gradients.value, element_bytes);
  const std::vector<Span> spans = spans_of(model, stage);
  const int64_t all = spans.back().parameters;
  const Flops pass = spans.back().end;
  const auto until = [&](const Flops& flops) { return pass.value > 0 ? flops / pass : 0.0; };
  std::vector<GradientGroup> groups;
  double before = 0;  // bytes of the spans that are filed
  for (const Span& span : spans) {
    const double end =
        all > 0 ? share_of(gradients, span.parameters, all, element_bytes) : gradients.value;
    const GradientGroup group{span.slice, Bytes{end - before}, until(span.begin),
                              1 - until(span.begin)};
    before = end;
    if (!groups.empty() && groups.back().bytes < floor) {
      join(groups.back(), group);
    } else {
      groups.push_back(group);
    }
  }
  if (groups.size() > 1 && groups.back().bytes < floor) {
    join(groups[groups.size() - 2], groups.back());
    groups.pop_back();
  }
  return groups;
}

std::vector<GradientGroup> gradient_groups(const Plan& plan, int32_t stage) {
  CHECK(stage >= 0 && stage < std::ssize(plan.stages), "there is no stage {}", stage);
  const Stage& here = plan.stages[static_cast<size_t>(stage)];
  return gradient_groups(plan.model, here.slice, here.gradients, gradient_bytes(plan));
}

}  // namespace tombolo::plan
