#include "perform/train/mixture_of_experts.h"

namespace tombolo::train {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows of LibTorch's index_select go back by additions one by one; here each way is one selection.
struct CopiesByExpert : torch::autograd::Function<CopiesByExpert> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& by_expert, const at::Tensor& by_token,
                            int64_t per_token) {
    context->save_for_backward({by_token});
    context->saved_data["per_token"] = per_token;
    return x.index_select(0, at::floor_divide(by_expert, per_token));
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor by_token = context->get_saved_variables()[0];
    const int64_t per_token = context->saved_data["per_token"].toInt();
    const at::Tensor& of_copies = gradients[0];
    const at::Tensor of_x =
        of_copies.index_select(0, by_token).view({-1, per_token, of_copies.size(1)}).sum(1);
    return {of_x, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct CopiesByToken : torch::autograd::Function<CopiesByToken> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& by_expert, const at::Tensor& by_token) {
    context->save_for_backward({by_expert});
    return x.index_select(0, by_token);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gradients[0].index_select(0, context->get_saved_variables()[0]), at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

Routing route(const at::Tensor& scores, int64_t per_token) {
  const bool narrow = scores.scalar_type() == at::kBFloat16;
  const auto [best, experts] = at::topk(narrow ? scores.to(at::kFloat) : scores, per_token, 1);
  const at::Tensor chosen = experts.reshape({-1});
  Routing out;
  out.weights = at::softmax(best, 1);
  out.by_expert = std::get<1>(at::sort(chosen, /*stable=*/true, 0, /*descending=*/false));
  out.by_token = at::empty_like(out.by_expert);
  out.by_token.index_copy_(0, out.by_expert, at::arange(chosen.numel(), at::kLong));
  const at::Tensor counts = at::bincount(chosen, {}, scores.size(1));
  out.counts.assign(counts.data_ptr<int64_t>(), counts.data_ptr<int64_t>() + counts.numel());
  return out;
}

at::Tensor copies_by_expert(const Routing& routing, const at::Tensor& x) {
  return CopiesByExpert::apply(x, routing.by_expert, routing.by_token, routing.per_token());
}

at::Tensor weighted_sum(const Routing& routing, const at::Tensor& by_expert) {
  const at::Tensor copies = CopiesByToken::apply(by_expert, routing.by_expert, routing.by_token);
  const at::Tensor of_tokens = copies.view({-1, routing.per_token(), by_expert.size(1)});
  return (of_tokens * routing.weights.unsqueeze(2)).sum(1).to(by_expert.scalar_type());
}

}  // namespace tombolo::train
