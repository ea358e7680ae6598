#include "perform/train/layer_operators.h"

#include <utility>

namespace tombolo::train {

using enum LayerOperator;

template <class Make>
at::Tensor LayerPass::Graph::forward(bool keeps, const Tensors& inputs, const Make& make) {
  if (!keeps) return make(inputs);
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

LayerPass::Tensors LayerPass::Graph::backward_as_laid_out(const at::Tensor& gradient) {
  Tensors gradients(leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i)
    leaves[i].register_hook([&gradients, i](const at::Tensor& each) { gradients[i] = each; });
  backward(gradient);
  return gradients;
}

Status LayerPass::check(const StageModule& module, size_t layer, const LayerPassOptions& options) {
  const ShardPlace* const place = module.place_;
  if (place && place->degrees().tensor > 1 && module.model_.whole_qk_norm.value_or(false))
    return unusable("model.whole_qk_norm: shards meet within attention", "parallelism.tensor = 1");
  if (options.gather_again && place && place->degrees().context > 1)
    return unusable("gathering again: shards of a context group meet within attention",
                    "parallelism.context = 1");
  const bool experts = module.layers_[layer].router.weight != StageModule::kNone;
  if (options.gather_again && place && experts && module.exchange_)
    return unusable("gathering again: shards meet for the experts of other ranks",
                    "parallelism.expert = 1");
  return {};
}

LayerPass::LayerPass(const StageModule& module, size_t layer, const LayerPassOptions& options)
    : module_(module), layer_(module.layers_[layer]), options_(options) {
  const Status usable = check(module, layer, options);
  CHECK(usable, "{}", usable.error().text());
  qkv_.affines = {layer_.value, layer_.key, layer_.query};
  projection_.affines = {layer_.output};
  if (!has_experts()) {
    up_ = products_of(layer_.mlp);
    down_.affines = {layer_.mlp.down};
    return;
  }
  router_.affines = {layer_.router};
  for (const StageModule::Mlp& each : layer_.experts)
    experts_.push_back({.up = products_of(each), .down = {.affines = {each.down}}});
  if (!has_shared()) return;
  shared_expert_.up = products_of(layer_.shared);
  shared_expert_.down.affines = {layer_.shared.down};
  if (has_shared_gate()) shared_expert_.up.affines.push_back(layer_.shared_gate);
}

LayerPass::Products LayerPass::products_of(const StageModule::Mlp& mlp) const {
  Products out{.affines = {mlp.up}};
  if (module_.model_.gated_mlp()) out.affines.push_back(mlp.gate);
  return out;
}

Meeting LayerPass::meeting() const {
  if (!module_.place_ || module_.place_->degrees().tensor == 1) return Meeting::kNone;
  return module_.place_->cuts_rows() ? Meeting::kRows : Meeting::kSums;
}

LayerForm LayerPass::form() const {
  return {.meeting = meeting(),
          .gather_again = options_.gather_again,
          .experts = has_experts(),
          .exchange = has_experts() && module_.exchange_ != nullptr,
          .shared = has_shared(),
          .shared_gate = has_shared_gate(),
          .norm_after = layer_.mlp_output_norm.weight != StageModule::kNone,
          .again = options_.again};
}

void LayerPass::begin(const at::Tensor& x) {
  flow_ = {x.detach()};
  if (!options_.again) return;
  input_ = flow_[0];
  keeps_ = false;
}

void LayerPass::begin_again() {
  flow_ = {std::exchange(input_, at::Tensor())};
  keeps_ = true;
}

void LayerPass::begin_backward(const at::Tensor& gradient) { gradient_ = gradient; }

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
  return graph.forward(keeps_, flow_, [&](const Tensors& in) { return make(in[0]); });
}

at::Tensor LayerPass::back_block(Graph& graph) const {
  return graph.out.defined() ? graph.backward(flow_[0])[0] : flow_[0];
}

// Where a second computation has left it out, its bias has a gradient nevertheless, whatever it was added to.
at::Tensor LayerPass::back_last_block() {
  if (options_.again && !block_2_.out.defined() && module_.adds_bias_late(layer_.mlp.down)) {
    const at::Tensor any = at::zeros({1, 1}, flow_[0].options()).expand(flow_[0].sizes());
    block_2_.forward(true, {any}, [&](const Tensors& in) {
      return module_.add_block(any, layer_.mlp.down, layer_.mlp_output_norm, in[0]);
    });
  }
  return back_block(block_2_);
}

void LayerPass::perform(LayerOperator op) {
  const at::NoGradGuard no_gradients;
  switch (op) {
    case kLn1:
      residual_ = flow_[0];
      flow_ = {norm_1_.forward(keeps_, flow_, [&](const Tensors& in) {
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
      flow_ = {attention_.forward(keeps_, flow_, [&](const Tensors& in) {
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
      flow_ = {norm_2_.forward(keeps_, flow_, [&](const Tensors& in) {
        return module_.normalise(layer_.mlp_norm, in[0]);
      })};
      read(flow_[0]);
      if (options_.gather_again && !has_experts()) normed_2_ = flow_[0];
      return;
    case kAg2:
      flow_ = {bring(flow_[0])};
      read(flow_[0]);
      return;
    case kFc1:
      flow_ = multiply(up_, false);
      if (options_.gather_again) up_.input = normed_2_;
      return;
    case kAct:
      flow_ = {activate(activation_, flow_)};
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
      if (!keeps_) forget();
      return;
    default:
      return perform_experts(op);
  }
}

// Parts of a tensor group are added where exchanges send them back, or with the sums of tokens.
void LayerPass::perform_experts(LayerOperator op) {
  switch (op) {
    case kRouter:
      flow_ = multiply(router_, false);
      return;
    case kPermute: {
      routing_.weights = routing_graph_.forward(keeps_, flow_, [&](const Tensors& in) {
        routing_ = route(in[0], module_.model_.experts->per_token);
        return routing_.weights;
      });
      counts_ = routing_.counts;
      flow_ = {permute_.forward(keeps_, {router_.input}, [&](const Tensors& in) {
        return copies_by_expert(routing_, in[0]);
      })};
      return;
    }
    case kA2a1:
      flow_ = {exchange().send_out(shard(), flow_[0], routing_.counts, route_)};
      counts_ = exchange().counts_of(route_);
      return;
    case kExpertFc1: {
      const Tensors rows = flow_[0].split_with_sizes(counts_);
      flow_.clear();
      for (size_t i = 0; i < experts_.size(); ++i) {
        experts_[i].up.input = rows[i];
        for (at::Tensor& each : multiply(experts_[i].up, false)) flow_.push_back(std::move(each));
      }
      return;
    }
    case kExpertAct: {
      Tensors made;
      const size_t each = flow_.size() / experts_.size();
      for (size_t i = 0; i < experts_.size(); ++i) {
        const auto its = flow_.begin() + static_cast<std::ptrdiff_t>(i * each);
        made.push_back(activate(experts_[i].activation,
                                Tensors(its, its + static_cast<std::ptrdiff_t>(each))));
        experts_[i].down.input = made.back();
      }
      flow_ = std::move(made);
      return;
    }
    case kExpertFc2: {
      Tensors made;
      for (Expert& each : experts_) made.push_back(multiply(each.down, false)[0]);
      flow_ = {at::cat(made)};
      return;
    }
    case kA2a2:
      flow_ = {exchange().send_back(shard(), flow_[0], route_)};
      return;
    case kUnpermute:
      routed_ = unpermute_.forward(keeps_, {flow_[0], routing_.weights}, [&](const Tensors& in) {
        Routing with_weights = routing_;
        with_weights.weights = in[1];
        return weighted_sum(with_weights, in[0]);
      });
      return add_shared();
    case kSharedFc1:
      shared_flow_ = multiply(shared_expert_.up, false);
      if (!has_shared_gate()) return;
      shared_score_ = shared_flow_.back();
      shared_flow_.pop_back();
      return;
    case kSharedAct:
      shared_flow_ = {activate(shared_expert_.activation, shared_flow_)};
      shared_expert_.down.input = shared_flow_[0];
      return;
    case kSharedFc2:
      shared_flow_ = multiply(shared_expert_.down, false);
      if (has_shared_gate())
        shared_flow_ = {shared_gate_.forward(
            keeps_, {shared_flow_[0], std::exchange(shared_score_, at::Tensor())},
            [&](const Tensors& in) { return in[0] * at::sigmoid(in[1]); })};
      shared_ = shared_flow_[0];
      shared_flow_.clear();
      return add_shared();
    default:
      return perform_backward(op);
  }
}

at::Tensor LayerPass::activate(Graph& graph, const Tensors& of_products) {
  return graph.forward(keeps_, of_products, [&](const Tensors& in) {
    return module_.activation(in[0], in.size() > 1 ? in[1] : at::Tensor());
  });
}

void LayerPass::read(const at::Tensor& normed) {
  if (!has_experts()) {
    up_.input = normed;
    return;
  }
  router_.input = normed;
  if (has_shared()) shared_expert_.up.input = normed;
}

void LayerPass::read_back(const at::Tensor& gradient) {
  if (!has_experts()) {
    down_.gradients = {gradient};
  } else if (has_shared()) {
    shared_flow_ = {gradient};
  }
}

// By whom of both comes last.
void LayerPass::add_shared() {
  if (!routed_.defined() || (has_shared() && !shared_.defined())) return;
  const at::Tensor routed = std::exchange(routed_, at::Tensor());
  flow_ = {has_shared() ? routed + std::exchange(shared_, at::Tensor()) : routed};
}

void LayerPass::forget() {
  for (Products* const each :
       {&qkv_, &projection_, &up_, &down_, &router_, &shared_expert_.up, &shared_expert_.down})
    each->input.reset();
  for (Expert& each : experts_) {
    each.up.input.reset();
    each.down.input.reset();
  }
  normed_1_.reset();
  normed_2_.reset();
  routing_ = {};
}

// Where shards meet before products read something, both note it: who made it and the collective.
void LayerPass::perform_backward(LayerOperator op) {
  switch (op) {
    case kBackBda2:
      residual_ = std::exchange(gradient_, at::Tensor());
      routed_.reset();  // of a second computation, where it is not added to anything
      flow_ = {residual_};
      flow_ = {back_last_block()};
      read_back(flow_[0]);
      return;
    case kBackAg2:
      flow_ = {bring(flow_[0])};
      read_back(flow_[0]);
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
      flow_ = attention_.backward_as_laid_out(flow_[0]);
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
      return perform_backward_experts(op);
  }
}

// The last expert first, as autograd does.
void LayerPass::perform_backward_experts(LayerOperator op) {
  switch (op) {
    case kBackUnpermute: {
      Tensors gradients = unpermute_.backward(flow_[0]);
      of_weights_ = gradients[1];
      flow_ = {gradients[0]};
      if (!module_.exchange_) give_to_experts(flow_[0]);
      return;
    }
    case kBackA2a2:
      flow_ = {exchange().send_again(shard(), flow_[0], route_)};
      return give_to_experts(flow_[0]);
    case kExpertFc2Input:
      flow_.assign(experts_.size(), {});
      for (size_t i = experts_.size(); i-- > 0;) flow_[i] = input_half(experts_[i].down);
      return;
    case kExpertFc2Weights:
      for (size_t i = experts_.size(); i-- > 0;) weight_half(experts_[i].down);
      return;
    case kBackExpertAct:
      for (size_t i = experts_.size(); i-- > 0;)
        experts_[i].up.gradients = experts_[i].activation.backward(flow_[i]);
      flow_.clear();
      return;
    case kExpertFc1Input: {
      Tensors parts(experts_.size());
      for (size_t i = experts_.size(); i-- > 0;) parts[i] = input_half(experts_[i].up);
      flow_ = {at::cat(parts)};
      return;
    }
    case kExpertFc1Weights:
      for (size_t i = experts_.size(); i-- > 0;) weight_half(experts_[i].up);
      return;
    case kBackA2a1:
      flow_ = {exchange().send_back(shard(), flow_[0], route_)};
      return;
    case kBackPermute:
      of_copies_ = permute_.backward(flow_[0])[0];
      router_.gradients = routing_graph_.backward(std::exchange(of_weights_, at::Tensor()));
      routing_ = {};
      return;
    case kRouterInput:
      of_scores_ = input_half(router_);
      return add_gradients_of_input();
    case kRouterWeights:
      return weight_half(router_);
    case kSharedFc2Input:
      back_shared_gate();
      shared_flow_ = {input_half(shared_expert_.down)};
      return;
    case kSharedFc2Weights:
      back_shared_gate();
      return weight_half(shared_expert_.down);
    case kBackSharedAct:
      shared_expert_.up.gradients = shared_expert_.activation.backward(shared_flow_[0]);
      if (has_shared_gate())
        shared_expert_.up.gradients.push_back(std::exchange(shared_score_, at::Tensor()));
      return;
    case kSharedFc1Input:
      of_shared_ = input_half(shared_expert_.up);
      return add_gradients_of_input();
    case kSharedFc1Weights:
      return weight_half(shared_expert_.up);
    default:
      CHECK(false, "no operator of a layer: {}", static_cast<int>(op));
  }
}

void LayerPass::give_to_experts(const at::Tensor& rows) {
  const Tensors parts = rows.split_with_sizes(counts_);
  for (size_t i = 0; i < experts_.size(); ++i) experts_[i].down.gradients = {parts[i]};
}

// Before the first half of the product.
void LayerPass::back_shared_gate() {
  Products& down = shared_expert_.down;
  if (!down.gradients.empty()) return;
  if (!has_shared_gate()) {
    down.gradients = shared_flow_;
    return;
  }
  const Tensors gradients = shared_gate_.backward(shared_flow_[0]);
  down.gradients = {gradients[0]};
  shared_score_ = gradients[1];
}

// By whom of all comes last; in the order in which autograd comes to them.
void LayerPass::add_gradients_of_input() {
  if (!of_scores_.defined() || (has_shared() && !of_shared_.defined())) return;
  const at::Tensor copies = std::exchange(of_copies_, at::Tensor());
  const at::Tensor both = has_shared() ? std::exchange(of_shared_, at::Tensor()) + copies : copies;
  flow_ = {both + std::exchange(of_scores_, at::Tensor())};
}

}  // namespace tombolo::train
