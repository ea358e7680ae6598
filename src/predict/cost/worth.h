// What an iteration of a Plan is worth, what it costs and what memory it needs: the figures reported next to
// its time. Commands, files and pages all take them from here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/units.h"
#include "predict/ledger/plan_ledger.h"
#include "spec/plan/plan.h"

namespace tombolo::cost {

struct Worth {
  std::optional<double> tokens_per_s;  // none of a Plan without a model
  std::optional<double> mfu;           // mfu_of()
  ledger::Ledger ledger;
  ledger::Cost cost;
};
// Of an iteration that takes so long, predicted or performed.
Worth worth_of(const plan::Plan& plan, Seconds iteration);

// The rank whose device needs the most, and what that device has.
struct MemoryPeak {
  Bytes bytes;
  Bytes capacity;
  int32_t rank = 0;
};
// Of what each rank needs (schedule::peak_memory).
MemoryPeak memory_peak(const plan::Plan& plan, std::span<const Bytes> per_rank);

}  // namespace tombolo::cost
