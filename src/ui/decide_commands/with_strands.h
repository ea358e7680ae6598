// What `tombolo plan` says of strands: the best parallelism once more, with forwards and backwards
// co-executed, or why not.
#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "base/value.h"
#include "predict/strand/pair_offer.h"
#include "spec/plan/job.h"

namespace tombolo::decide_commands {

struct WithStrands {
  strand::PairOffer offer;
  // Where the offer was taken: the folded schedule that simulates shorter, and its time. Left out:
  // none fits, and `obstacle` says why.
  std::string schedule;
  std::optional<Seconds> iteration;
  Seconds one_after_the_other;  // of the same schedule without pairs
  Bytes peak_memory;
  std::string obstacle;
};

// Nothing where no layer of the job communicates inside. Cost: a search for strands, and four
// simulations.
std::optional<WithStrands> with_strands(const plan::Job& job);

// `simulated`: the job as it is.
void print_strands(std::ostream& out, const WithStrands& with,
                   const std::optional<Seconds>& simulated);
Value strands_json(const WithStrands& with);

}  // namespace tombolo::decide_commands
