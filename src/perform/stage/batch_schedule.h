// How many microbatches each pipeline computes, and from which iteration on: ordered by the launcher during the run
// (steer/tune/batch_controller.h), with the consent of every rank.
//
// If ranks had different numbers, samples would be left out or counted twice. So the launcher asks first, and decides
// when all have answered (docs/decisions/0071-all-ranks-agree-on-a-division.md):
//
//   ask     this rank can use it and has not begun that iteration: it will not begin it before it is decided.
//           Else it says what is wrong, or that it is too late.
//   decide  all ranks were in time, and the order holds; or one was not, and nothing changes.
//
// A rank that reaches the iteration before the decision waits. `ask` and `decide` are called by the thread that listens
// to the launcher, in the order of its messages; `begin` by the one that performs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "perform/kernels/activity.h"
#include "spec/plan/plan.h"
#include "spec/schedule/schedule.h"

namespace tombolo::stage {

// A Plan with that many microbatches in each pipeline, and what one of its ranks then does in an iteration.
struct Division {
  plan::Plan plan;
  schedule::RankActions order;
};
// Fails if the Plan cannot be divided in this way. Cost: an order of one pipeline is built.
Result<Division> divide(const plan::Plan& plan, int32_t rank, const std::vector<int64_t>& each);

class BatchSchedule {
 public:
  explicit BatchSchedule(Threads& threads) : threads_(threads), changed_(threads.signal()) {}

  // How orders are checked before they are answered; left out: each can be used. Called by the
  // thread that listens; set it before the first order comes.
  using Check = std::function<Status(const std::vector<int64_t>& microbatches)>;
  void check_with(Check check);

  // --- the listening thread
  struct Answer {
    bool in_time = false;
    std::string unusable;  // why this rank cannot use it, in time or not; empty: it can
  };
  // Fails if the previous order is not decided yet.
  Result<Answer> ask(int64_t order, int64_t first_iteration, std::vector<int64_t> microbatches);
  // Fails if that is not the order that was asked.
  Status decide(int64_t order, bool holds);
  // Nothing more will be decided: a rank that waits fails with this error.
  void stop(const Error& error);

  // --- the performing thread
  // The iteration begins. Returns the division for it and the following ones; nullopt: it stays as it is. Waits if an
  // order for it is not decided yet. `activity` is told of the wait; it may be null.
  Result<std::optional<std::vector<int64_t>>> begin(int64_t iteration, kernels::Activity* activity);

 private:
  struct Asked {
    int64_t order = 0;
    int64_t first_iteration = 1;
    bool in_time = true;
    std::vector<int64_t> microbatches;
  };
  Threads& threads_;
  std::mutex mutex_;
  const std::unique_ptr<Signal> changed_;
  Check check_;
  int64_t begun_ = 0;  // the newest iteration
  std::optional<Asked> asked_;
  std::map<int64_t, std::vector<int64_t>> from_;  // decided, not yet in use; by first iteration
  std::optional<Error> stopped_;
};

}  // namespace tombolo::stage
