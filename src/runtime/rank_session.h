// A rank's life under a launcher: say hello, get the Plan, load kernels, link to the neighbours,
// wait for all, perform, report.
//
// Two threads: the caller's performs; a second one listens to the launcher. When the launcher says
// stop, or goes away, the Endpoint is aborted, and whatever the first thread waits for fails.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "plan/plan.h"
#include "runtime/kernels.h"
#include "transport/handshake.h"

namespace tombolo::runtime {

// What makes a rank's kernels once the Plan is known. May take long; runs on the performing thread.
using KernelsFactory =
    std::function<Result<std::unique_ptr<Kernels>>(const plan::Plan& plan, int32_t rank)>;

struct RankSessionOptions {
  int32_t rank = 0;
  int32_t ranks = 1;  // of the Plan; the launcher is one more
  uint16_t launcher_port = 0;
  transport::Token token;
  // Ends the process when the first thread is still busy so long after a stop; zero: never.
  SimDuration stuck_max;
  std::function<void(const std::string&)> log;  // one line, from any thread
};

// Returns when all steps are done, or with the reason why not. Where another rank or the launcher
// was at fault the error is kLostPeer and names it.
Status serve_rank(const RankSessionOptions& options, const KernelsFactory& make_kernels,
                  Clock& clock);

// "trace-rank-3.jsonl" in the folder: a rank's part of the Trace, until the launcher merges them.
std::string rank_trace_path(const std::string& folder, int32_t rank);

// "rank 1 (paris)".
std::string rank_name(const plan::Plan& plan, int32_t rank);

}  // namespace tombolo::runtime
