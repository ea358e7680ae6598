#include "predict/strand/cut_products.h"

#include <optional>
#include <vector>

#include "base/check.h"
#include "predict/strand/gain_spread.h"

namespace tombolo::strand {
namespace {

bool is_product(const Operator& op) { return op.kind == Kind::kProduct; }
bool is_tensor(const Operator& op) { return op.kind == Kind::kTensor; }

// The product that alone waits for this gather in its place right behind, or the scatter that waits
// for this product alone.
std::optional<size_t> goes_with(const Dag& dag, size_t first) {
  const size_t next = first + 1;
  if (next >= dag.size() || dag[next].after != only(first)) return std::nullopt;
  const Operator &a = dag[first], &b = dag[next];
  const bool gather = is_tensor(a) && !a.async && is_product(b);
  const bool scatter = is_product(a) && is_tensor(b) && !b.async;
  return gather || scatter ? std::optional(next) : std::nullopt;
}

class Cutter {
 public:
  Cutter(const Dag& dag, const CutOptions& options) : dag_(dag), options_(options) {
    CHECK(options.pieces >= 1 && options.loss >= 0, "{} pieces, a loss of {}", options.pieces,
          options.loss);
  }

  Dag cut() {
    for (size_t i = 0; i < dag_.size(); ++i) {
      if (goes_with(dag_, i)) {
        is_tensor(dag_[i]) ? gather(i) : scatter(i);
        ++i;
      } else {
        Operator op = dag_[i];
        op.after = after(op);
        made_.push_back(only(out_.add(std::move(op))));
      }
    }
    return std::move(out_);
  }

 private:
  // All pieces of what it waits for.
  OperatorSet after(const Operator& op) const {
    OperatorSet set = 0;
    for (size_t i = 0; i < made_.size(); ++i) {
      if (holds(op.after, i)) set |= made_[i];
    }
    return set;
  }
  OperatorSet add_piece(const Operator& whole, size_t piece, OperatorSet after) {
    const bool communicates = is_communication(whole.kind);
    Operator op = whole;
    op.name += fmt::format(".{}", piece + 1);
    op.seconds /= static_cast<double>(options_.pieces);
    if (!communicates) op.seconds *= 1 + options_.loss;
    op.after = after;
    op.async = op.async || communicates;
    return only(out_.add(std::move(op)));
  }

  // All pieces of the gather are on their way before the first product.
  void gather(size_t i) {
    const OperatorSet before = after(dag_[i]);
    std::vector<OperatorSet> pieces;
    OperatorSet travelled = 0, computed = 0;
    for (size_t k = 0; k < options_.pieces; ++k) {
      pieces.push_back(add_piece(dag_[i], k, before));
      travelled |= pieces.back();
    }
    for (size_t k = 0; k < options_.pieces; ++k) {
      computed |= add_piece(dag_[i + 1], k, pieces[k]);
    }
    made_.insert(made_.end(), {travelled, computed});
  }
  void scatter(size_t i) {
    const OperatorSet before = after(dag_[i]);
    OperatorSet travelled = 0, computed = 0;
    for (size_t k = 0; k < options_.pieces; ++k) {
      const OperatorSet piece = add_piece(dag_[i], k, before);
      computed |= piece;
      travelled |= add_piece(dag_[i + 1], k, piece);
    }
    made_.insert(made_.end(), {computed, travelled});
  }

  const Dag& dag_;
  const CutOptions options_;
  Dag out_;
  std::vector<OperatorSet> made_;  // of each operator: its pieces
};

}  // namespace

Dag cut_products(const Dag& dag, const CutOptions& options) { return Cutter(dag, options).cut(); }

double cut_seconds(const StrandPair& pair, const OverlapTable& overlap, const CutOptions& options) {
  return sequential_seconds(StrandPair(cut_products(pair.forward(), options),
                                       cut_products(pair.backward(), options), overlap));
}

}  // namespace tombolo::strand
