#include "perform/train/stage_pass.h"

#include <utility>

namespace tombolo::train {

Status StagePass::check(const StageModule& module) {
  if (module.layers_.empty()) return unusable("a stage without layers");
  for (size_t layer = 0; layer < module.layers_.size(); ++layer)
    TRY(LayerPass::check(module, layer, {}));
  return {};
}

StagePass::StagePass(const StageModule& module, const LayerPassOptions& options) : module_(module) {
  CHECK(!options.again || !has_head(), "a loss is not computed again");
  for (size_t layer = 0; layer < module.layers_.size(); ++layer) {
    layers_.push_back(std::make_unique<LayerPass>(module, layer, options));
    forward_.push_back(layers_.back().get());
  }
  backward_.assign(forward_.rbegin(), forward_.rend());
  if (options.in_place) of_head_.add_in_place();
}

void StagePass::begin(const at::Tensor& input, StageModule::Need need, Loss loss) {
  need_ = std::move(need);
  make_loss_ = std::move(loss);
  input_ = input;
  if (!has_embedding()) forward_.front()->begin(input);
}

void StagePass::begin_backward(const at::Tensor& gradient) {
  gradient_ = gradient;
  if (!has_head()) backward_.front()->begin_backward(gradient);
}

// As StageModule::forward() does.
void StagePass::needs(int parameter) const {
  if (!need_) return;
  if (!module_.place_ || module_.place_->shard == 0) need_(static_cast<size_t>(parameter));
  if (module_.place_) module_.place_->meet();
}

void StagePass::needs_layer(size_t layer) const { needs(module_.layers_[layer].first); }

void StagePass::embed() {
  const at::AutoGradMode with_gradients(true);
  needs(module_.embedding_.weight);
  embedded_ = module_.place_ ? module_.embed_shard(input_) : module_.embed(input_, 0);
  forward_.front()->begin(embedded_);
}

void StagePass::head() {
  const at::AutoGradMode with_gradients(true);
  needs(module_.norm_.weight);
  head_input_ = forward_.back()->result().detach().set_requires_grad(true);
  graph_of_loss_ = make_loss_(module_.head(head_input_, &of_head_));
  loss_ = graph_of_loss_.detach();
}

void StagePass::back_head() {
  torch::autograd::backward({std::exchange(graph_of_loss_, at::Tensor())}, {gradient_});
  backward_.front()->begin_backward(std::exchange(head_input_, at::Tensor()).grad());
}

void StagePass::perform_forward() {
  for (const StrandOperator& op : operators_of(this, nullptr)) op.work();
}

void StagePass::perform_backward() {
  for (const StrandOperator& op : operators_of(nullptr, this)) op.work();
}

void StagePass::perform_weights() { train::perform_weights(backward_); }

std::vector<StrandOperator> operators_of(StagePass* forward, StagePass* backward) {
  StrandLayers layers;
  if (forward) {
    layers.meeting = forward->meeting();
    layers.forward = forward->forward_;
    if (forward->has_embedding()) layers.embed = [forward] { forward->embed(); };
    if (forward->has_head()) layers.head = [forward] { forward->head(); };
    layers.before_layer = [forward](size_t layer) { forward->needs_layer(layer); };
  }
  if (backward) {
    layers.meeting = backward->meeting();
    layers.backward = backward->backward_;
    layers.without_weights = backward->defers_;
    if (backward->has_head()) layers.back_head = [backward] { backward->back_head(); };
    if (backward->has_embedding()) {
      layers.back_embed = [backward] {
        torch::autograd::backward({std::exchange(backward->embedded_, at::Tensor())},
                                  {backward->input_gradient()});
      };
    }
  }
  return operators_of(layers);
}

}  // namespace tombolo::train
