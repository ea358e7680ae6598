#include "perform/train/mixed_operations.h"

#include <vector>

namespace tombolo::train::mixed {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor to_float(const at::Tensor& x) { return x.to(at::kFloat); }
at::Tensor to_bf16(const at::Tensor& x) { return x.to(at::kBFloat16); }

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double epsilon) {
    const at::Tensor wide = to_float(x);
    const at::Tensor scale = at::rsqrt(wide.square().mean(-1, true) + epsilon);
    context->save_for_backward({x, weight, scale});
    return to_bf16(wide.mul_(scale).mul_(weight));
  }

  // With n = x scale and h = gradient weight:  dx = scale (h - n mean(h n)).
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& scale = saved[2];
    const at::Tensor normed = to_float(saved[0]).mul_(scale);
    at::Tensor gradient = to_float(gradients[0]);
    const at::Tensor of_weight = (gradient * normed).sum(0);
    gradient.mul_(saved[1]);
    const at::Tensor along = (gradient * normed).mean(-1, true);
    gradient.sub_(normed.mul(along)).mul_(scale);
    return {to_bf16(gradient), of_weight, at::Tensor()};
  }
};

struct Silu {
  static at::Tensor of(const at::Tensor& x) { return at::silu(x); }
  static at::Tensor backward(const at::Tensor& gradient, const at::Tensor& x) {
    return at::silu_backward(gradient, x);
  }
};

struct Gelu {
  static at::Tensor of(const at::Tensor& x) { return at::gelu(x, "tanh"); }
  static at::Tensor backward(const at::Tensor& gradient, const at::Tensor& x) {
    return at::gelu_backward(gradient, x, "tanh");
  }
};

template <class Activation>
struct Gated : torch::autograd::Function<Gated<Activation>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    context->save_for_backward({gate, up});
    return to_bf16(Activation::of(to_float(gate)).mul_(to_float(up)));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor gate = to_float(saved[0]), gradient = to_float(gradients[0]);
    const at::Tensor of_up = Activation::of(gate).mul_(gradient);
    const at::Tensor of_gate = Activation::backward(gradient.mul(to_float(saved[1])), gate);
    return {to_bf16(of_gate), to_bf16(of_up)};
  }
};

// The other way round where `turn` is -1.
at::Tensor rotated(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine,
                   double turn) {
  const at::Tensor wide = at::empty(x.sizes(), x.options().dtype(at::kFloat)).copy_(x);
  const std::vector<at::Tensor> halves = wide.chunk(2, -1);
  at::Tensor out = at::empty(x.sizes(), x.options());
  const std::vector<at::Tensor> to = out.chunk(2, -1);
  to[0].copy_(at::addcmul(halves[0] * cosine, halves[1], sine, -turn));
  to[1].copy_(at::addcmul(halves[1] * cosine, halves[0], sine, turn));
  return out;
}

struct Rotate : torch::autograd::Function<Rotate> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cosine,
                            const at::Tensor& sine) {
    context->save_for_backward({cosine, sine});
    return rotated(x, cosine, sine, 1);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list tables = context->get_saved_variables();
    return {rotated(gradients[0], tables[0], tables[1], -1), at::Tensor(), at::Tensor()};
  }
};

// `cap`: 0 for none.
struct MaskedSoftmax : torch::autograd::Function<MaskedSoftmax> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& scores,
                            const at::Tensor& mask, double scale, double cap) {
    at::Tensor wide = to_float(scores).mul_(scale);
    if (cap > 0) wide.div_(cap).tanh_().mul_(cap);
    const at::Tensor weights = to_bf16(at::softmax(wide.add_(mask), -1));
    context->save_for_backward(cap > 0 ? variable_list{weights, scores} : variable_list{weights});
    context->saved_data["scale"] = scale;
    context->saved_data["cap"] = cap;
    return weights;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const double scale = context->saved_data["scale"].toDouble();
    const double cap = context->saved_data["cap"].toDouble();
    at::Tensor of_scores =
        at::_softmax_backward_data(to_float(gradients[0]), to_float(saved[0]), -1, at::kFloat);
    if (cap > 0) {  // d tanh(x) = 1 - tanh(x)^2
      of_scores.mul_(to_float(saved[1]).mul_(scale / cap).tanh_().square_().neg_().add_(1));
    }
    of_scores.mul_(scale);
    return {to_bf16(of_scores), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return RmsNorm::apply(x, weight, epsilon);
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return Gated<Silu>::apply(gate, up);
}

at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up) {
  return Gated<Gelu>::apply(gate, up);
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  return Rotate::apply(x, cosine, sine);
}

at::Tensor masked_softmax(const at::Tensor& scores, const at::Tensor& mask, const Scores& rule) {
  return MaskedSoftmax::apply(scores, mask, rule.scale, rule.softcap.value_or(0));
}

}  // namespace tombolo::train::mixed
