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
// more, renormalised. Fails where a logit is no finite number. Cost: one pass, and a sort where
// top_p < 1.
Result<int64_t> sample(std::span<const float> logits, const Sampling& sampling, Random& random);

// Leaves the generator as a sample() does that was taken elsewhere: an answer that is handed over goes
// on as it would have.
void skip_sample(const Sampling& sampling, Random& random);

}  // namespace tombolo::generate
