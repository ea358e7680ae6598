#include "perform/train/strand_layers.h"

namespace tombolo::train {
namespace {

bool is_of_weights(const LayerStep& step) { return step.name.back() == 'w'; }

// What ends a layer is waited for by all that begins the next: gradients of weights as well, as chain() has it.
class Strand {
 public:
  Strand(std::vector<StrandOperator>& out, int32_t number) : out_(out), number_(number) {}

  void add_whole(const char* name, const std::function<void()>& work) {
    if (!work) return;
    out_.push_back({.name = name, .strand = number_, .after = ends_, .work = work});
    ends_ = {out_.size() - 1};
  }

  // Before the first operator of either pass.
  struct Begin {
    std::function<void()> forward, backward;
  };
  void add_layer(const std::vector<LayerStep>& steps, const StrandLayers& layers, LayerPass* pass,
                 const std::string& suffix, const Begin& begin) {
    std::vector<size_t> number_of(steps.size()), ends;
    std::vector<bool> waited_for(steps.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      const LayerStep& step = steps[i];
      if (layers.without_weights && is_of_weights(step)) {
        waited_for[i] = true;
        continue;
      }
      number_of[i] = out_.size();
      StrandOperator op{.name = step.name + suffix,
                        .stream = !step.communicates ? Stream::kCompute
                                  : step.across      ? layers.across
                                                     : layers.link,
                        .strand = number_,
                        .async = step.async};
      if (step.after.empty()) op.after = ends_;
      for (const size_t other : step.after) {
        op.after.push_back(number_of[other]);
        waited_for[other] = true;
      }
      op.work = [pass, op = step.op] { pass->perform(op); };
      if (step.op == LayerOperator::kLn1 || step.op == LayerOperator::kBackBda2)
        op.work = [pass, op = step.op,
                   begin = step.op == LayerOperator::kLn1 ? begin.forward : begin.backward] {
          begin();
          pass->perform(op);
        };
      out_.push_back(std::move(op));
    }
    for (size_t i = 0; i < steps.size(); ++i)
      if (!waited_for[i]) ends.push_back(number_of[i]);
    ends_ = std::move(ends);
  }

 private:
  std::vector<StrandOperator>& out_;
  const int32_t number_;
  std::vector<size_t> ends_;
};

LayerForm form_of(const LayerPass& pass, const StrandLayers& layers) {
  LayerForm form = pass.form();
  form.meeting = layers.meeting;
  return form;
}

void add_forward(std::vector<StrandOperator>& out, const StrandLayers& layers) {
  Strand strand(out, 0);
  strand.add_whole("EMBED", layers.embed);
  for (size_t i = 0; i < layers.forward.size(); ++i) {
    LayerPass* const pass = layers.forward[i];
    LayerPass* const before = i > 0 ? layers.forward[i - 1] : nullptr;
    strand.add_layer(forward_steps(form_of(*pass, layers)), layers, pass,
                     suffix_of_layer(i, layers.forward.size()),
                     {.forward = [pass, before, i, before_layer = layers.before_layer] {
                       if (before_layer) before_layer(i);
                       if (before) pass->begin(before->result());
                     }});
  }
  strand.add_whole("HEAD", layers.head);
}

void add_backward(std::vector<StrandOperator>& out, const StrandLayers& layers) {
  Strand strand(out, 1);
  strand.add_whole("bHEAD", layers.back_head);
  for (size_t i = 0; i < layers.backward.size(); ++i) {
    LayerPass* const pass = layers.backward[i];
    LayerPass* const before = i > 0 ? layers.backward[i - 1] : nullptr;
    strand.add_layer(backward_steps(form_of(*pass, layers)), layers, pass,
                     suffix_of_layer(i, layers.backward.size()),
                     {.forward = [pass] { pass->begin_again(); },
                      .backward =
                          [pass, before] {
                            if (before) pass->begin_backward(before->result());
                          }});
  }
  strand.add_whole("bEMBED", layers.back_embed);
}

}  // namespace

std::string suffix_of_layer(size_t layer, size_t layers) {
  return layers > 1 ? fmt::format(".{}", layer + 1) : std::string();
}

std::vector<StrandOperator> operators_of(const StrandLayers& layers) {
  std::vector<StrandOperator> out;
  add_forward(out, layers);
  add_backward(out, layers);
  return out;
}

void perform_weights(std::span<LayerPass* const> backward) {
  for (LayerPass* const pass : backward) {
    for (const LayerStep& step : backward_steps(pass->form()))
      if (is_of_weights(step)) pass->perform(step.op);
  }
}

}  // namespace tombolo::train
