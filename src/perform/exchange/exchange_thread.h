// A rank's part in the all-reduce of gradients by groups: a thread of its own that sends, adds and updates while the
// performing thread computes (schedule/gradient_exchange.h says what is sent to whom).
//
// A group is handed over when its gradient is complete. Of the groups under way the thread handles first the one that
// is due first: the earlier iteration, then what the next forward pass needs first; the links use the same rule
// (urgency_of). With order = "first-come", groups of an iteration go in the order in which they were handed over, in
// both places. When a group is summed it is updated at once, and the forward pass that waits for it continues.
//
//   performing thread   complete(s, g) ... complete(s, 0)        await_ready(s, 0) ...
//   this thread            sum of g, update of g, sum of 0, update of 0
//
// If updates need all gradients (Plan::updates_by_group is false), groups are sent during the backward pass all the
// same, and the performing thread waits for all of them, then updates as it does without groups.
//
// Memory: gradients are summed in place. In addition there is what was handed to the links and has not left yet, at
// most kCopiesMax or one group of a rank with one stage, and what arrived from faster replicas, at most one
// iteration's. Groups begin in the order in which they were handed over, the same on all replicas, so the oldest one is
// under way everywhere, and no rank waits for ever.
//
// If the Plan's [exchange] is sparse, each datacenter sends a sparse update of a group instead of summing it
// (sparse_updates.h). The parameters are updated when these are merged and no pass uses the group (group_versions.h):
// at once, or, with staleness, when the passes of the next iteration are done with it. Received updates that wait for
// that are kept as blocks. What the other ranks of a datacenter hand to their leader then does not count as copies, and
// may be all gradients of an iteration.
//
// If it has local steps, the sum is over one datacenter, its update is an inner step, and after some of them an outer
// step begins or ends (outer_step_scheduler.h). A group that waits for updates of other datacenters is then not up to
// date before the outer step has ended.
//
// All hooks are called on this thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/clock.h"
#include "perform/exchange/arrivals.h"
#include "perform/exchange/density_schedule.h"
#include "perform/exchange/group_sum.h"
#include "perform/exchange/group_versions.h"
#include "perform/exchange/outer_step_scheduler.h"
#include "perform/exchange/sparse_updates.h"
#include "perform/kernels/activity.h"
#include "perform/kernels/messenger.h"
#include "perform/kernels/parameter_groups.h"
#include "spec/plan/plan.h"
#include "spec/trace/trace.h"

namespace tombolo::exchange {

struct ExchangeOptions {
  int32_t rank = 0;
  int64_t first_iteration = 1;
  SimTime origin;         // on the clock: time 0 of the Trace
  bool overlap = true;    // a complete group leaves at once; else when its stage is released
  bool updates = true;    // a summed group is updated at once
  bool one_clock = true;  // of all ranks: a message's departure is known
  kernels::Activity* activity = nullptr;     // is told of waits; null: not needed
  const DensitySchedule* density = nullptr;  // of sparse updates; null, or silent: the Plan's
};

struct ExchangeHooks {
  // Before anything of iteration step + 1 is updated; or, if it is sparse, before anything of the state changes for it:
  // residuals change when updates are made from gradients.
  std::function<Status(int64_t step)> before_update = {};
  // All groups of this rank are updated; called before threads that wait for the last one are woken.
  std::function<Status(int64_t iteration)> updated = {};
  // At most once: the exchange has failed. Waits for groups fail with the same error, now and later.
  std::function<void(const Error&)> failed = {};
};

class ExchangeThread final : public kernels::GroupWatcher {
 public:
  static constexpr int64_t kCopiesMax = int64_t{64} << 20;  // bytes

  // All outlive it.
  ExchangeThread(const plan::Plan& plan, const ExchangeOptions& options,
                 kernels::ParameterGroups& parameters, kernels::Messenger& messenger,
                 Threads& threads, ExchangeHooks hooks);
  ~ExchangeThread() override;  // abandons what is under way

  // --- the performing thread
  void begin_iteration(int64_t iteration);
  void complete(int32_t stage, int32_t group) override;
  Status await_ready(int32_t stage, int32_t group) override;
  // Without overlap: the complete groups of this stage are sent from now on.
  void release(int32_t stage);
  Status await_stage(int32_t stage);  // all that was handed over of it is summed, and updated
  Status await_all();
  Status await_arrivals();  // and all in transit has arrived, even if its outer step ends later
  // Waits until the gradients of this stage may change, because sparse updates were made of them; if the exchange is
  // not sparse, returns at once.
  Status await_taken(int32_t stage);
  // Of the groups that passes began to use since the last call, how many were up to date.
  GroupVersions::Freshness take_freshness();
  // What came from other datacenters since the last call.
  Arrivals::Sum take_arrivals();
  // The density of sparse updates of this iteration: as ordered when the iteration began.
  double density_of(int64_t iteration);
  // The waits of await_... since the last call, in order; times of the Trace.
  struct Wait {
    SimTime start, end;
  };
  std::vector<Wait> take_waits() { return std::exchange(waits_, {}); }
  // Where passes reached a group since the last call, in order: computing stopped at `reached` and continued at `left`.
  // A forward reaches a group that it begins to use, a backward one that is complete.
  struct Border {
    int32_t group = 0;
    SimTime reached, left;
  };
  int32_t groups_of(int32_t stage) const {
    return static_cast<int32_t>(group_bytes_.at(stage).size());
  }
  std::vector<Border> take_borders() { return std::exchange(borders_, {}); }
  // What was done since the last call: of each group REDUCE_GRAD, from when it was handed over until it was summed, the
  // messages that were received for it, and UPDATE.
  std::vector<trace::Interval> take_intervals();
  // Waits for what is under way, and for the end of the thread; once.
  Status finish();

 private:
  using Key = GroupKey;
  static constexpr link::Tag kWake{.iteration = 0, .tensor = kernels::kWakeTensor};
  struct HandedOver {
    Key key;
    SimTime since;
  };
  // The sum of a group, or its outer step: by when it is due.
  struct Due {
    int64_t iteration = 0;
    int64_t turn = 0;  // with "first-come": the order of beginning; else 0
    Key key;
    bool outer = false;
    auto operator<=>(const Due&) const = default;
  };
  struct UnderWay {
    Key key;  // of the iteration in which it began
    SimTime since;
    int64_t bytes = 0;                       // of the group, in place
    int64_t copied = 0;                      // of them, that may lie with the links
    std::unique_ptr<SparseUpdates> updates;  // none where it is dense
    std::unique_ptr<OuterUpdates> outer;     // of an outer step
    std::unique_ptr<GroupSum> sum;
  };
  Due due(const Key& key, bool outer = false);
  Status work();
  Status begin_new();
  Status begin(const HandedOver& group);
  std::vector<kernels::Messenger::Awaited> awaited()
      const;  // what wakes, then groups as they are due
  Status advance(size_t place, const link::Received& message);
  Status send(std::vector<GroupSum::Parcel> parcels);
  std::unique_ptr<SparseUpdates> sparse_updates(const Key& key, std::span<const float> gradient);
  Status before(const Key& key);
  void note_taken(const Key& key, UnderWay& entry);
  Status settle(const Due& due);
  Status begin_outer(const Key& key);
  Status settle_outer(const UnderWay& step);
  Status after_update(const Key& key);
  Status make_updates();
  Status update(const Key& key, const compress::Merged* sparse);
  void hand_over(const Key& key, SimTime since);
  void wake();
  bool is_over();
  Status finish_update(const Key& key);
  void end_update(const Key& key);
  template <class Settled>
  Status await(const Settled& settled);
  void draw(trace::Interval interval);
  void draw_message(const UnderWay& group, int32_t from, const link::Received& message);
  void note_arrival(int32_t from, const link::Received& message);
  int64_t bytes_of_group(int32_t stage, int32_t group) const;
  void note_border(int32_t group, SimTime reached);
  SimTime since_origin(SimTime instant) const { return SimTime{} + (instant - options_.origin); }

  const ExchangeOptions options_;
  const int32_t position_;  // of the rank in its pipeline
  const plan::Plan& plan_;
  kernels::ParameterGroups& parameters_;
  kernels::Messenger& messenger_;
  Threads& threads_;
  const ExchangeHooks hooks_;
  const std::vector<int32_t> replicas_;  // ranks
  const plan::Exchange exchange_;
  size_t stages_ = 0;  // of this rank
  std::map<int32_t, std::vector<int64_t>>
      group_bytes_;  // of gradients, by stage: as the Plan has it

  // The performing thread's.
  int64_t iteration_ = 0;
  std::vector<Wait> waits_;
  std::vector<Border> borders_;
  std::vector<HandedOver> held_;  // complete and not released

  // This thread's.
  std::map<Due, UnderWay> under_way_;
  int64_t turns_ = 0;                                    // that were taken
  std::map<Due, compress::Merged> merged_;               // and not made yet
  std::optional<compress::BlockCompressor> compressor_;  // where it is sparse
  std::optional<OuterStepScheduler> outer_book_;         // where it has local steps
  std::set<Key> held_up_;                                // whose outer steps end when all is there
  int64_t bytes_under_way_ = 0;
  int64_t updating_ = 0;  // the newest iteration of which something is updated

  std::mutex mutex_;  // of all below
  const std::unique_ptr<Signal> changed_;
  std::deque<HandedOver> handed_over_;
  GroupVersions versions_;
  int64_t outer_under_way_ = 0;  // outer steps
  std::vector<trace::Interval> intervals_;
  Arrivals arrivals_;                    // from other datacenters
  std::map<int64_t, double> densities_;  // of iterations that may be under way
  bool ending_ = false;                  // nothing more is handed over
  bool leaving_ = false;                 // and what is under way is abandoned
  bool over_ = false;
  Status status_;

  std::unique_ptr<Thread> thread_;  // last: its end is awaited before all else goes
};

}  // namespace tombolo::exchange
