#include "perform/train/weight_gradients.h"

#include <utility>

namespace tombolo::train {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What the two functions below share. The context keeps the address of the WeightGradients, and
// which of its products this is.
struct Products {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, int64_t address) {
    auto* gradients = reinterpret_cast<WeightGradients*>(address);
    context->save_for_backward({x, weight});
    context->saved_data["gradients"] = address;
    context->saved_data["product"] = static_cast<int64_t>(gradients->products_.size());
    gradients->products_.push_back({weight, {}, {}});
    return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
  }

  // The gradients of x and of the weight; the latter is undefined where it waits.
  static std::pair<at::Tensor, at::Tensor> backward(AutogradContext* context,
                                                    const at::Tensor& gradient) {
    const variable_list saved = context->get_saved_variables();
    auto* gradients = reinterpret_cast<WeightGradients*>(context->saved_data["gradients"].toInt());
    at::Tensor of_weight;
    if (gradients->deferred_) {
      auto& product =
          gradients->products_[static_cast<size_t>(context->saved_data["product"].toInt())];
      product.input = saved[0].detach();
      product.gradient = gradient;
    } else {
      of_weight = gradient.t().mm(saved[0]);
    }
    return {gradient.mm(saved[1]), of_weight};
  }
};

namespace {

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            int64_t address) {
    return Products::forward(context, x, weight, {}, address);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto [of_x, of_weight] = Products::backward(context, gradients[0]);
    return {of_x, of_weight, at::Tensor()};
  }
};

struct LinearWithBias : torch::autograd::Function<LinearWithBias> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, int64_t address) {
    return Products::forward(context, x, weight, bias, address);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    auto [of_x, of_weight] = Products::backward(context, gradients[0]);
    return {of_x, of_weight, gradients[0].sum(0), at::Tensor()};
  }
};

}  // namespace

void WeightGradients::compute() {
  const at::NoGradGuard no_gradients;
  for (Product& product : products_) {
    if (!product.gradient.defined()) continue;
    const at::Tensor fresh = product.gradient.t().mm(product.input);
    at::Tensor& sum = product.weight.mutable_grad();
    if (sum.defined()) {
      sum.add_(fresh);
    } else {
      sum = fresh;
    }
    product.gradient = product.input = at::Tensor();
  }
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  WeightGradients& gradients) {
  const auto address = reinterpret_cast<int64_t>(&gradients);
  return bias.defined() ? LinearWithBias::apply(x, weight, bias, address)
                        : Linear::apply(x, weight, address);
}

}  // namespace tombolo::train
