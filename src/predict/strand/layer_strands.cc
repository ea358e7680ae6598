#include "predict/strand/layer_strands.h"

#include "base/check.h"

namespace tombolo::strand {
namespace {

// Adds operators to a strand. Each waits for those given, or for what was added `then`.
class Weaver {
 public:
  Weaver(Dag& dag, const LayerShape& shape) : dag_(dag), shape_(shape) {}

  OperatorSet add(std::string name, Kind kind, double seconds, OperatorSet after,
                  bool async = false) {
    return only(dag_.add({.name = std::move(name),
                          .kind = kind,
                          .stream = stream_of(kind),
                          .seconds = seconds,
                          .after = after,
                          .async = async}));
  }
  // After the last of these, and the last from now on.
  void then(std::string name, Kind kind, double seconds) {
    last = add(std::move(name), kind, seconds, last);
  }

  OperatorSet last = 0;

 private:
  Stream stream_of(Kind kind) const {
    if (kind == Kind::kTensor) return shape_.tensor_stream;
    if (kind == Kind::kContext) return shape_.context_stream;
    if (kind == Kind::kExpert) return shape_.expert_stream;
    return Stream::kCompute;
  }

  Dag& dag_;
  const LayerShape& shape_;
};

// A quarter of norms and residuals each; casts go with the two norms.
double residual(const cost::LayerOperators& o) { return o.norms / 4; }
double norm(const cost::LayerOperators& o) { return o.norms / 4 + o.casts / 2; }
double inputs(const cost::LayerOperators& o) { return o.query_down + o.query + o.key_down + o.key; }

class LayerWeaver {
 public:
  LayerWeaver(const LayerShape& shape, const cost::LayerOperators& o) : s_(shape), o_(o) {}

  void forward(Dag& dag, const std::string& prefix) const {
    Weaver w(dag, s_);
    w.last = dag.size() == 0 ? 0 : dag.last_of(dag.all());
    const auto then = [&](const char* name, Kind kind, double seconds) {
      w.then(prefix + name, kind, seconds);
    };
    then("LN1", Kind::kElementwise, norm(o_));
    if (scattered()) then("AG1", Kind::kTensor, o_.gather);
    then("QKV", Kind::kProduct, inputs(o_) + o_.attention_passes);
    forward_attention(w, prefix);
    then("PROJ", Kind::kProduct, o_.projection);
    close(w, prefix, "1", false);
    then("BDA1", Kind::kElementwise, residual(o_));
    then("LN2", Kind::kElementwise, norm(o_));
    const bool end = prefix.empty() || !s_.as_trained || s_.norm_after;
    if (scattered() && gathers_first()) then("AG2", Kind::kTensor, o_.gather);
    if (o_.experts) {
      forward_experts(w, prefix, end);
    } else {
      then("FC1", Kind::kProduct, o_.mlp.up);
      then("ACT", Kind::kElementwise, o_.mlp.passes);
      if (end) then("FC2", Kind::kProduct, o_.mlp.down);
    }
    if (!end) return;
    if (gathers_first()) close(w, prefix, "2", false);
    then("BDA2", Kind::kElementwise, residual(o_));
  }

  void backward(Dag& dag) const {
    Weaver w(dag, s_);
    if (o_.all_again) forward(dag, "r");
    w.last = dag.size() == 0 ? 0 : dag.last_of(dag.all());
    if (o_.again > 0) w.then("AGAIN", Kind::kElementwise, o_.again);
    w.then("bBDA2", Kind::kElementwise, residual(o_) * o_.pass_backward);
    const OperatorSet begin = w.last;
    if (scattered() && gathers_first()) w.then("bAG2", Kind::kTensor, o_.gather);
    if (o_.experts) {
      backward_experts(w);
    } else {
      backward_mlp(w, begin);
    }
    if (gathers_first()) close(w, "b", "2", true);
    w.then("bLN2", Kind::kElementwise, norm(o_) * o_.pass_backward);
    w.then("bBDA1", Kind::kElementwise, residual(o_) * o_.pass_backward);
    backward_attention_block(w, begin);
    w.then("bLN1", Kind::kElementwise, norm(o_) * o_.pass_backward);
  }

 private:
  bool scattered() const { return s_.tensor && s_.sequence_parallel; }
  // Tokens, not rows of experts.
  bool gathers_first() const { return !o_.experts || s_.as_trained; }

  // What ends a block whose outputs are partial sums. In the backward pass the gradient of weights
  // is computed meanwhile.
  void close(Weaver& w, const std::string& prefix, const char* number, bool async) const {
    if (!s_.tensor) return;
    w.last = scattered()
                 ? w.add(prefix + "RS" + number, Kind::kTensor, o_.gather, w.last, async)
                 : w.add(prefix + "AR" + number, Kind::kTensor, 2 * o_.gather, w.last, async);
  }

  void forward_attention(Weaver& w, const std::string& prefix) const {
    if (s_.context == 1) return w.then(prefix + "FA", Kind::kAttention, o_.attention);
    const auto pieces = real(s_.context);
    OperatorSet keys = w.last;  // of which the first travel as soon as they exist
    for (int64_t piece = 0; piece < s_.context; ++piece) {
      OperatorSet after = w.last;
      if (piece > 0) {
        keys = w.add(fmt::format("{}P{}", prefix, piece), Kind::kContext, o_.keys / (pieces - 1),
                     keys, true);
        after |= keys;
      }
      w.last = w.add(fmt::format("{}FA{}", prefix, piece), Kind::kAttention, o_.attention / pieces,
                     after);
    }
  }

  void forward_experts(Weaver& w, const std::string& prefix, bool end) const {
    const OperatorSet input = w.last;
    const auto then = [&](const char* name, Kind kind, double seconds) {
      w.then(prefix + name, kind, seconds);
    };
    then("ROUTER", Kind::kProduct, o_.router);
    then("PERMUTE", Kind::kElementwise, o_.permute / 2);
    if (s_.exchange) then("A2A1", Kind::kExpert, o_.exchange);
    if (scattered() && !gathers_first()) then("AG2", Kind::kTensor, o_.gather);
    then("EFC1", Kind::kProduct, *o_.experts * o_.mlp.up);
    then("EACT", Kind::kElementwise, *o_.experts * o_.mlp.passes);
    then("EFC2", Kind::kProduct, *o_.experts * o_.mlp.down);
    if (!gathers_first()) close(w, prefix, "2", false);
    if (s_.exchange) then("A2A2", Kind::kExpert, o_.exchange);
    then("UNPERMUTE", Kind::kElementwise, o_.permute / 2);
    if (o_.shared.total() > 0) {  // parallel to all of it
      const OperatorSet routed = w.last;
      w.last = input;
      then("SFC1", Kind::kProduct, o_.shared.up);
      then("SACT", Kind::kElementwise, o_.shared.passes);
      if (end || s_.shared_gate) then("SFC2", Kind::kProduct, o_.shared.down);
      w.last |= routed;
    }
  }

  // The gradient of an input, on the way; that of the weights, whenever there is time.
  void products(Weaver& w, const std::string& name, double seconds, OperatorSet gathered) const {
    const OperatorSet before = w.last;
    w.then(name + "d", Kind::kProduct, seconds);
    w.add(name + "w", Kind::kProduct, seconds, before | gathered);
  }

  OperatorSet gather_input(Weaver& w, const char* name, OperatorSet begin) const {
    if (!scattered() || !s_.gather_again) return 0;
    return w.add(name, Kind::kTensor, o_.gather, begin, true);
  }

  void backward_mlp(Weaver& w, OperatorSet begin) const {
    products(w, "FC2", o_.mlp.down, 0);
    w.then("bACT", Kind::kElementwise, 2 * o_.mlp.passes);
    products(w, "FC1", o_.mlp.up, gather_input(w, "gAG2", begin));
  }

  void backward_experts(Weaver& w) const {
    const OperatorSet gradient = w.last;
    w.then("bUNPERMUTE", Kind::kElementwise, o_.permute / 2 * o_.pass_backward);
    if (s_.exchange) w.then("bA2A2", Kind::kExpert, o_.exchange);
    if (scattered() && !gathers_first()) w.then("bAG2", Kind::kTensor, o_.gather);
    products(w, "EFC2", *o_.experts * o_.mlp.down, 0);
    w.then("bEACT", Kind::kElementwise, 2 * *o_.experts * o_.mlp.passes);
    products(w, "EFC1", *o_.experts * o_.mlp.up, 0);
    if (!gathers_first()) close(w, "b", "2", true);
    if (s_.exchange) w.then("bA2A1", Kind::kExpert, o_.exchange);
    w.then("bPERMUTE", Kind::kElementwise, o_.permute / 2 * o_.pass_backward);
    products(w, "ROUTER", o_.router, 0);
    if (o_.shared.total() > 0) {
      const OperatorSet routed = w.last;
      w.last = gradient;
      products(w, "SFC2", o_.shared.down, 0);
      w.then("bSACT", Kind::kElementwise, 2 * o_.shared.passes);
      products(w, "SFC1", o_.shared.up, 0);
      w.last |= routed;
    }
  }

  void backward_attention_block(Weaver& w, OperatorSet begin) const {
    if (scattered()) w.then("bAG1", Kind::kTensor, o_.gather);
    products(w, "PROJ", o_.projection, 0);
    backward_attention(w);
    products(w, "QKV", inputs(o_) + o_.attention_passes, gather_input(w, "gAG1", begin));
    close(w, "b", "1", true);
  }

  // The first exchange brings keys, the last takes their gradients home, those between do both: the
  // gradients of one piece leave while the next one computes.
  void backward_attention(Weaver& w) const {
    if (s_.context == 1) {
      return w.then("bFA", Kind::kAttentionBackward, o_.attention_backward);
    }
    const auto pieces = real(s_.context);
    OperatorSet attention = w.last, travelled = w.last;
    for (int64_t piece = 0; piece < s_.context; ++piece) {
      const bool last = piece == s_.context - 1;
      const double units = piece == 0 || last ? 1 : 2;
      const OperatorSet before = attention | travelled;
      attention = w.add(fmt::format("bFA{}", piece), Kind::kAttentionBackward,
                        o_.attention_backward / pieces, before);
      travelled = w.add(fmt::format("bP{}", piece + 1), Kind::kContext,
                        o_.keys * units / (pieces - 1), last ? before | attention : before, true);
    }
    w.last = travelled;
  }

  const LayerShape& s_;
  const cost::LayerOperators& o_;
};

}  // namespace

LayerShape shape_of(const cost::Configuration& c, const cost::GroupPlacement& layout,
                    bool gather_again) {
  const auto stream = [](const cost::DegreeSplit& grid) {
    return grid.network > 1 ? Stream::kCross : Stream::kLocal;
  };
  return {.tensor = c.tensor > 1,
          .sequence_parallel = c.sequence_parallel,
          .context = c.context,
          .exchange = c.expert > 1,
          .gather_again = gather_again,
          .tensor_stream = stream(layout.tensor),
          .context_stream = stream(layout.context),
          .expert_stream = stream(layout.expert)};
}

LayerStrands layer_strands(const LayerShape& shape, const cost::LayerOperators& times) {
  const LayerWeaver weaver(shape, times);
  LayerStrands out;
  weaver.forward(out.forward, "");
  weaver.backward(out.backward);
  return out;
}

// Context parallelism alone makes layers long: attention in c pieces adds c - 1 of them to either pass,
// c - 1 transfers to the forward and c to the backward pass.
OperatorCounts operator_counts(const LayerShape& shape, const cost::LayerOperators& times) {
  LayerShape in_one_piece = shape;
  in_one_piece.context = 1;
  const LayerStrands layer = layer_strands(in_one_piece, times);
  const int64_t forward = 2 * (shape.context - 1);
  const int64_t backward = shape.context > 1 ? 2 * shape.context - 1 : 0;
  return {.forward = std::ssize(layer.forward.operators()) + forward,
          .backward =
              std::ssize(layer.backward.operators()) + backward + (times.all_again ? forward : 0)};
}

}  // namespace tombolo::strand
