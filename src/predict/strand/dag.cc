#include "predict/strand/dag.h"

#include <unordered_map>
#include <unordered_set>

#include "base/check.h"

namespace tombolo::strand {

size_t Dag::add(Operator op) {
  CHECK(size() < kOperatorsMax, "a strand of more than {} operators", kOperatorsMax);
  CHECK((op.after & ~all()) == 0, "{} waits for an operator that comes later", op.name);
  CHECK(op.seconds >= 0, "{} takes {} s", op.name, op.seconds);
  CHECK(is_communication(op.kind) == (op.stream != Stream::kCompute), "{} on the {} stream",
        op.name, to_name(op.stream));
  operators_.push_back(std::move(op));
  return size() - 1;
}

OperatorSet Dag::last_of(OperatorSet set) const {
  OperatorSet waited_for = 0;
  for (size_t i = 0; i < size(); ++i) {
    if (holds(set, i)) waited_for |= operators_[i].after;
  }
  return set & ~waited_for;
}

double Dag::seconds(OperatorSet set) const {
  double sum = 0;
  for (size_t i = 0; i < size(); ++i) {
    if (holds(set, i)) sum += operators_[i].seconds;
  }
  return sum;
}

void Dag::set_seconds(size_t index, double seconds) {
  CHECK(seconds >= 0, "{} takes {} s", operators_[index].name, seconds);
  operators_[index].seconds = seconds;
}

Dag chain(const Dag& layer, size_t copies) {
  Dag out;
  OperatorSet last = 0;
  for (size_t copy = 0; copy < copies; ++copy) {
    const size_t first = out.size();
    for (Operator op : layer.operators()) {
      op.after = op.after == 0 ? last : op.after << first;
      if (copies > 1) op.name += fmt::format(".{}", copy + 1);
      out.add(std::move(op));
    }
    last = layer.last_of(layer.all()) << first;
  }
  return out;
}

Dag in_order(const Dag& dag) {
  Dag out;
  for (Operator op : dag.operators()) {
    op.after = out.all();
    out.add(std::move(op));
  }
  return out;
}

Dag framework_order(const Dag& dag) {
  Dag out;
  OperatorSet in_order = 0;
  for (Operator op : dag.operators()) {
    if (op.async) {
      out.add(std::move(op));
    } else {
      op.after |= in_order;
      in_order |= only(out.add(std::move(op)));
    }
  }
  return out;
}

namespace {

// The operators that can come next after those of `done`.
OperatorSet ready(const Dag& dag, OperatorSet done) {
  OperatorSet out = 0;
  for (size_t i = 0; i < dag.size(); ++i) {
    if (!holds(done, i) && (dag[i].after & ~done) == 0) out |= only(i);
  }
  return out;
}

}  // namespace

std::vector<OperatorSet> order_ideals(const Dag& dag) {
  std::vector<OperatorSet> out{0};
  // Each ideal of a size comes from one of the size before: breadth first, by size.
  for (size_t begin = 0, end = 1; begin < end; begin = end, end = out.size()) {
    std::unordered_set<OperatorSet> seen;
    for (size_t at = begin; at < end; ++at) {
      for (OperatorSet next = ready(dag, out[at]); next != 0; next &= next - 1) {
        const OperatorSet bigger = out[at] | (next & ~(next - 1));
        if (seen.insert(bigger).second) out.push_back(bigger);
      }
    }
    CHECK(out.size() <= kIdealsMax, "a strand of more than {} order ideals", kIdealsMax);
  }
  return out;
}

double order_count(const Dag& dag) {
  std::unordered_map<OperatorSet, double> ways{{0, 1}};
  for (const OperatorSet ideal : order_ideals(dag)) {
    const double here = ways[ideal];
    for (OperatorSet next = ready(dag, ideal); next != 0; next &= next - 1) {
      ways[ideal | (next & ~(next - 1))] += here;
    }
  }
  return ways[dag.all()];
}

}  // namespace tombolo::strand
