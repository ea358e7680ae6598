// How long replicas in several datacenters take to exchange the gradients of a stage: the law
// `gradient-exchange`.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "spec/plan/plan.h"

namespace tombolo::cost {

// All gradients of a stage at once, when all replicas begin together and no other rank sends: the
// rounds of schedule/gradient_exchange.h one after the other, each as long as its slowest message,
// or as its fullest card, pair of nodes or path. With k replicas in each of two datacenters, S
// bytes,
//
//   T = 2 (alpha_in + (k-1)/k S / B_in) + alpha + S / (k B);  the first two not for k = 1
//
// Exact where every replica begins and ends each round with the others, as in that formula; else a
// lower bound. docs/laws/gradient_exchange.md. Cost: O(messages).
Seconds exchange_alone(const plan::Plan& plan, int32_t stage);

// At least what the gradients of all stages take, when all begin at once: the longest of them alone, or
// what the fullest card, pair of nodes or path carries for all of them.
Seconds exchange_of_all(const plan::Plan& plan);

}  // namespace tombolo::cost
