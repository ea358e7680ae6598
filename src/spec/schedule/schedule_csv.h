// Schedules as CSV in torchtitan's notation: one row per rank, one action per cell.
//
//   0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,...
//
// PyTorch's pipeline runtime (torch.distributed.pipelining, PipelineScheduleMulti) reads and writes
// the same form for F, B, I, W, co-executed passes ("(0F4;3B1)OVERLAP_F_B") and the messages; R and U
// are ours. Files that hold computations
// only can be completed with add_communication (passes.h).
#pragma once

#include <string>
#include <string_view>

#include "spec/schedule/schedule.h"

namespace tombolo::schedule {

enum class CsvContent {
  kComputations,  // F and B (and R, U)
  kEverything,    // with sends and receives
};

std::string to_csv(const Schedule& schedule, CsvContent content);

// Empty cells (bubbles in a drawing) are skipped, blank lines are ranks without actions. Says
// nothing about soundness: validate().
Result<Schedule> parse_csv(std::string_view text, const std::string& name);

}  // namespace tombolo::schedule
