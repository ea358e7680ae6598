// Two strands of one rank as operators that an executor can arrange: forward layers of a microbatch, backward layers
// of another.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "perform/train/layer_operators.h"
#include "perform/train/strand_executor.h"

namespace tombolo::train {

struct StrandLayers {
  std::span<LayerPass* const>
      forward;  // in the order of computation, each from the output of the one before
  std::span<LayerPass* const> backward;  // the same: the last layer comes first here
  Meeting meeting = Meeting::kNone;      // LayerPass::meeting()
  Stream link = Stream::kLocal;          // of tensor groups
  Stream across = Stream::kCross;        // of experts, between ranks

  // What a stage does besides its layers, where it does: EMBED before its forward layers and HEAD after them, bHEAD
  // and bEMBED around the backward ones. Each takes what the layers made and gives them what they begin with.
  std::function<void()> embed = {}, head = {}, back_head = {}, back_embed = {};
  std::function<void(size_t layer)> before_layer = {};  // of the forward ones
  bool without_weights = false;                         // their gradients are left for weights_of()
};

// Strand 0 goes forward, 1 backward. Of the first passes begin() and begin_backward() were called, and result() of the
// last ones is what came out. Of several layers names are those of predict/strand's chain(): "FC1.2" of the second.
// Passes outlive the operators; both strands may have layers in common, but not the same LayerPass.
std::vector<StrandOperator> operators_of(const StrandLayers& layers);

// What stands behind the name of an operator of a strand's layer, by its number.
std::string suffix_of_layer(size_t layer, size_t layers);

// Computes the gradients of weights of backward layers whose passes left them out.
void perform_weights(std::span<LayerPass* const> backward);

}  // namespace tombolo::train
