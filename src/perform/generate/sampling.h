// Which token follows, given logits. Pure but for the generator that is passed in.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"
#include "base/result.h"

namespace tombolo::generate {

struct Sampling {
  double temperature = 0;  // 0: the likeliest token, the first of equals
  double top_p = 1;        // draw among the likeliest tokens whose shares together reach it
  int64_t seed = 0;        // equal seeds and logits, equal tokens

  bool operator==(const Sampling&) const = default;
};

// An index into `logits`. Shares are softmax(logits / temperature), in double; top_p is nucleus
// sampling (Holtzman et al. 2020): the smallest set of likeliest tokens whose shares sum to top_p or
// more, renormalised. Fails if a logit is not finite. Cost: one pass, and a sort if top_p < 1.
Result<int64_t> sample(std::span<const float> logits, const Sampling& sampling, Random& random);

// Advances the generator as one sample() would that was drawn elsewhere, so that an answer that is
// handed over continues as if it had not been.
void skip_sample(const Sampling& sampling, Random& random);

}  // namespace tombolo::generate
