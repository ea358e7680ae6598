#include "perform/train/layer_operators.h"

#include <utility>

namespace tombolo::train {

using enum LayerOperator;

template <class Make>
at::Tensor LayerPass::Graph::forward(const Tensors& inputs, const Make& make) {
  const at::AutoGradMode with_gradients(true);
  leaves.clear();
  for (const at::Tensor& each : inputs) leaves.push_back(each.detach().set_requires_grad(true));
  out = make(leaves);
  return out.detach();
}

// A leaf that is a root as well gets what is passed first, as the node of an addition would in a graph of the whole.
LayerPass::Tensors LayerPass::Graph::backward(const at::Tensor& gradient,
                                              const at::Tensor& passed) {
  if (passed.defined()) {
    torch::autograd::backward({out, leaves.front()}, {gradient, passed});
  } else {
    torch::autograd::backward({out}, {gradient});
  }
  Tensors gradients;
  for (const at::Tensor& each : leaves) gradients.push_back(each.grad());
  leaves.clear();
  out.reset();
  return gradients;
}

Status LayerPass::check(const StageModule& module, size_t layer, const LayerPassOptions& options) {
  const ShardPlace* const place = module.place_;
  if (module.layers_[layer].router.weight != StageModule::kNone)
    return unusable("a layer of experts is not performed operator by operator yet",
                    "a model without experts");
  if (place && place->degrees().tensor > 1 && module.model_.whole_qk_norm.value_or(false))
    return unusable("model.whole_qk_norm: shards meet within attention", "parallelism.tensor = 1");
  if (options.gather_again && place && place->degrees().context > 1)
    return unusable("gathering again: shards of a context group meet within attention",
                    "parallelism.context = 1");
  return {};
}

LayerPass::LayerPass(const StageModule& module, size_t layer, const LayerPassOptions& options)
    : module_(module), layer_(module.layers_[layer]), options_(options) {
  const Status usable = check(module, layer, options);
  CHECK(usable, "{}", usable.error().text());
  qkv_.affines = {layer_.value, layer_.key, layer_.query};
  projection_.affines = {layer_.output};
  up_.affines = {layer_.mlp.up};
  if (module.model_.gated_mlp()) up_.affines.push_back(layer_.mlp.gate);
  down_.affines = {layer_.mlp.down};
}

Meeting LayerPass::meeting() const {
  if (!module_.place_ || module_.place_->degrees().tensor == 1) return Meeting::kNone;
  return module_.place_->cuts_rows() ? Meeting::kRows : Meeting::kSums;
}

void LayerPass::begin(const at::Tensor& x) { flow_ = {x.detach()}; }
void LayerPass::begin_backward(const at::Tensor& gradient) { flow_ = {gradient}; }

at::Tensor LayerPass::bring(const at::Tensor& x) const {
  if (meeting() != Meeting::kRows) return x;
  return bring_rows(*module_.place_, x,
                    module_.samples_ * module_.model_.sequence / module_.place_->degrees().context);
}

at::Tensor LayerPass::sum(const at::Tensor& partial) const {
  return meeting() == Meeting::kNone ? partial : sum_parts(*module_.place_, partial);
}

// `in_parts`: of a sum that a tensor group makes.
LayerPass::Tensors LayerPass::multiply(Products& products, bool in_parts) {
  Tensors out;
  for (const StageModule::Affine& each : products.affines)
    out.push_back(in_parts ? module_.apply_part(each, products.input, nullptr)
                           : module_.apply(each, products.input, nullptr));
  return out;
}

// The last product first, as autograd does.
at::Tensor LayerPass::input_half(Products& products) {
  at::Tensor all;
  for (size_t i = products.affines.size(); i-- > 0;) {
    const Parameter& weight = module_.parameters_[static_cast<size_t>(products.affines[i].weight)];
    const at::Tensor one = gradient_of_input(products.gradients[i],
                                             weight.half.defined() ? weight.half : weight.value);
    all = all.defined() ? all.add_(one) : one;
  }
  finish_half(products);
  return all;
}

void LayerPass::weight_half(Products& products) {
  for (size_t i = products.affines.size(); i-- > 0;) {
    const StageModule::Affine& affine = products.affines[i];
    const bool late = &products == &projection_ || &products == &down_;
    const bool biased =
        affine.bias != StageModule::kNone && !(late && module_.adds_bias_late(affine));
    add_gradients(module_.value(affine.weight), biased ? module_.value(affine.bias) : at::Tensor(),
                  products.gradients[i], products.input, options_.in_place);
  }
  finish_half(products);
}

void LayerPass::finish_half(Products& products) {
  if (++products.halves < 2) return;
  products.input.reset();
  products.gradients.clear();
  products.halves = 0;
}

// Without a bias and a norm of its own it is an addition, of which the gradient is what came.
at::Tensor LayerPass::add_block(Graph& graph, const StageModule::Affine& product,
                                const StageModule::Affine& norm) {
  const auto make = [&](const at::Tensor& sum) {
    return module_.add_block(residual_, product, norm, sum);
  };
  if (norm.weight == StageModule::kNone && !module_.adds_bias_late(product)) return make(flow_[0]);
  return graph.forward(flow_, [&](const Tensors& in) { return make(in[0]); });
}

at::Tensor LayerPass::back_block(Graph& graph) const {
  return graph.out.defined() ? graph.backward(flow_[0])[0] : flow_[0];
}

void LayerPass::perform(LayerOperator op) {
  const at::NoGradGuard no_gradients;
  switch (op) {
    case kLn1:
      residual_ = flow_[0];
      flow_ = {norm_1_.forward(flow_, [&](const Tensors& in) {
        return module_.normalise(layer_.attention_norm, in[0]);
      })};
      qkv_.input = flow_[0];
      if (options_.gather_again) normed_1_ = flow_[0];
      return;
    case kAg1:
      flow_ = {bring(flow_[0])};
      qkv_.input = flow_[0];
      return;
    case kQkv:
      flow_ = multiply(qkv_, false);
      if (options_.gather_again) qkv_.input = normed_1_;
      return;
    case kFa:
      flow_ = {attention_.forward(flow_, [&](const Tensors& in) {
        return module_.attend_heads(layer_, in[2], in[1], in[0]);
      })};
      projection_.input = flow_[0];
      return;
    case kProj:
      flow_ = multiply(projection_, true);
      return;
    case kRs1:
      flow_ = {sum(flow_[0])};
      return;
    case kBda1:
      flow_ = {add_block(block_1_, layer_.output, layer_.attention_output_norm)};
      residual_ = flow_[0];
      return;
    case kLn2:
      flow_ = {norm_2_.forward(
          flow_, [&](const Tensors& in) { return module_.normalise(layer_.mlp_norm, in[0]); })};
      up_.input = flow_[0];
      if (options_.gather_again) normed_2_ = flow_[0];
      return;
    case kAg2:
      flow_ = {bring(flow_[0])};
      up_.input = flow_[0];
      return;
    case kFc1:
      flow_ = multiply(up_, false);
      if (options_.gather_again) up_.input = normed_2_;
      return;
    case kAct:
      flow_ = {activation_.forward(flow_, [&](const Tensors& in) {
        return module_.activation(in[0], in.size() > 1 ? in[1] : at::Tensor());
      })};
      down_.input = flow_[0];
      return;
    case kFc2:
      flow_ = multiply(down_, true);
      return;
    case kRs2:
      flow_ = {sum(flow_[0])};
      return;
    case kBda2:
      flow_ = {add_block(block_2_, layer_.mlp.down, layer_.mlp_output_norm)};
      residual_.reset();
      return;
    default:
      return perform_backward(op);
  }
}

// Where shards meet before products read something, both note it: who made it and the collective.
void LayerPass::perform_backward(LayerOperator op) {
  switch (op) {
    case kBackBda2:
      residual_ = flow_[0];
      flow_ = {back_block(block_2_)};
      down_.gradients = flow_;
      return;
    case kBackAg2:
      flow_ = {bring(flow_[0])};
      down_.gradients = flow_;
      return;
    case kFc2Input:
      flow_ = {input_half(down_)};
      return;
    case kFc2Weights:
      return weight_half(down_);
    case kBackAct:
      flow_ = activation_.backward(flow_[0]);
      up_.gradients = flow_;
      return;
    case kAgainAg2:
      up_.input = bring(std::exchange(normed_2_, at::Tensor()));
      return;
    case kFc1Input:
      flow_ = {input_half(up_)};
      return;
    case kFc1Weights:
      return weight_half(up_);
    case kBackRs2:
      flow_ = {sum(flow_[0])};
      return;
    case kBackLn2:
      flow_ = norm_2_.backward(flow_[0], residual_);
      residual_ = flow_[0];
      return;
    case kBackBda1:
      flow_ = {back_block(block_1_)};
      projection_.gradients = flow_;
      return;
    case kBackAg1:
      flow_ = {bring(flow_[0])};
      projection_.gradients = flow_;
      return;
    case kProjInput:
      flow_ = {input_half(projection_)};
      return;
    case kProjWeights:
      return weight_half(projection_);
    case kBackFa:
      flow_ = attention_.backward(flow_[0]);
      qkv_.gradients = flow_;
      return;
    case kAgainAg1:
      qkv_.input = bring(std::exchange(normed_1_, at::Tensor()));
      return;
    case kQkvInput:
      flow_ = {input_half(qkv_)};
      return;
    case kQkvWeights:
      return weight_half(qkv_);
    case kBackRs1:
      flow_ = {sum(flow_[0])};
      return;
    case kBackLn1:
      flow_ = norm_1_.backward(flow_[0], residual_);
      residual_.reset();
      return;
    default:
      CHECK(false, "no operator of a layer: {}", static_cast<int>(op));
  }
}

}  // namespace tombolo::train
