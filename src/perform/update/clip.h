// Clipping by the norm of all gradients together: if it exceeds a limit, every gradient is
// multiplied by the same factor, so that the direction stays (Pascanu et al., 2013).
#pragma once

#include <span>

namespace tombolo::update {

// The sum of the squares, in double: the sums of all ranks add up to the square of the global norm.
// Each parameter must be counted once: not again on every replica, nor on both stages of a tied
// embedding. Not finite if an element is not. Eight partial sums in a fixed order: the same bits
// however the compiler vectorises.
double squares(std::span<const float> gradients);

// What to multiply gradients of this global norm by: limit / (norm + 1e-6), at most 1, as
// torch.nn.utils.clip_grad_norm_ does. limit > 0; the norm is finite and not negative.
double clip_factor(double norm, double limit);

void scale(std::span<float> gradients, double factor);

}  // namespace tombolo::update
