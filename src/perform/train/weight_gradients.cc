#include "perform/train/weight_gradients.h"

#include <utility>

namespace tombolo::train {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What the two functions below share. The context keeps the address of the WeightGradients, and
// which of its products this is.
struct Products {
  // In place the product adds as it multiplies, and rounds otherwise than autograd's sum does.
  static void add(const at::Tensor& weight, const at::Tensor& gradient, const at::Tensor& input,
                  bool in_place) {
    at::Tensor& sum = weight.mutable_grad();
    if (!sum.defined()) {
      sum = gradient.t().mm(input).to(weight.scalar_type());
    } else if (in_place && sum.scalar_type() == gradient.scalar_type()) {
      sum.addmm_(gradient.t(), input);
    } else {
      sum.add_(gradient.t().mm(input));
    }
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& used, const at::Tensor& bias, int64_t address) {
    auto* gradients = reinterpret_cast<WeightGradients*>(address);
    context->save_for_backward({x, used});
    context->saved_data["gradients"] = address;
    context->saved_data["product"] = static_cast<int64_t>(gradients->products_.size());
    gradients->products_.push_back({weight, {}, {}});
    return bias.defined() ? at::linear(x, used, bias.to(x.scalar_type())) : at::linear(x, used);
  }

  // The gradients of x and of the weight; the latter is undefined where it waits.
  static std::pair<at::Tensor, at::Tensor> backward(AutogradContext* context,
                                                    const at::Tensor& gradient) {
    const variable_list saved = context->get_saved_variables();
    auto* gradients = reinterpret_cast<WeightGradients*>(context->saved_data["gradients"].toInt());
    auto& product =
        gradients->products_[static_cast<size_t>(context->saved_data["product"].toInt())];
    at::Tensor of_weight;
    if (gradients->deferred_) {
      product.input = saved[0].detach();
      product.gradient = gradient;
    } else if (gradients->in_place_) {
      const at::NoGradGuard no_gradients;
      add(product.weight, gradient, saved[0], true);
    } else {
      of_weight = gradient.t().mm(saved[0]).to(product.weight.scalar_type());
    }
    return {gradient_of_input(gradient, saved[1]), of_weight};
  }
};

namespace {

at::Tensor gradient_of_bias(const at::Tensor& gradient, at::ScalarType type) {
  return gradient.sum(0, false, type);
}

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& used, int64_t address) {
    return Products::forward(context, x, weight, used, {}, address);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto [of_x, of_weight] = Products::backward(context, gradients[0]);
    return {of_x, of_weight, at::Tensor(), at::Tensor()};
  }
};

struct LinearWithBias : torch::autograd::Function<LinearWithBias> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& used, const at::Tensor& bias, int64_t address) {
    context->saved_data["bias"] = static_cast<int64_t>(bias.scalar_type());
    return Products::forward(context, x, weight, used, bias, address);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto [of_x, of_weight] = Products::backward(context, gradients[0]);
    const auto type = static_cast<at::ScalarType>(context->saved_data["bias"].toInt());
    return {of_x, of_weight, at::Tensor(), gradient_of_bias(gradients[0], type), at::Tensor()};
  }
};

}  // namespace

std::vector<at::Tensor> WeightGradients::waiting() const {
  std::vector<at::Tensor> weights;
  for (const Product& product : products_) {
    if (product.gradient.defined()) weights.push_back(product.weight);
  }
  return weights;
}

void WeightGradients::compute(const Done& done) {
  const at::NoGradGuard no_gradients;
  for (auto at = products_.rbegin(); at != products_.rend(); ++at) {
    Product& product = *at;
    if (!product.gradient.defined()) continue;
    Products::add(product.weight, product.gradient, product.input, in_place_);
    product.gradient = product.input = at::Tensor();
    if (done) done(product.weight);
  }
}

at::Tensor linear(const at::Tensor& x, const Weight& weight, const at::Tensor& bias,
                  WeightGradients& gradients) {
  const auto address = reinterpret_cast<int64_t>(&gradients);
  // No gradient goes to what is used: where it is the leaf itself, that is the leaf's.
  const at::Tensor used = weight.used.detach();
  return bias.defined() ? LinearWithBias::apply(x, weight.leaf, used, bias, address)
                        : Linear::apply(x, weight.leaf, used, address);
}

at::Tensor gradient_of_input(const at::Tensor& gradient, const at::Tensor& used) {
  return gradient.mm(used);
}

void add_gradients(const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& gradient,
                   const at::Tensor& input, bool in_place) {
  const at::NoGradGuard no_gradients;
  if (weight.requires_grad()) Products::add(weight, gradient, input, in_place);
  if (!bias.defined() || !bias.requires_grad()) return;
  const at::Tensor of_bias = gradient_of_bias(gradient, bias.scalar_type());
  at::Tensor& sum = bias.mutable_grad();
  if (sum.defined()) {
    sum.add_(of_bias);
  } else {
    sum = of_bias;
  }
}

}  // namespace tombolo::train
