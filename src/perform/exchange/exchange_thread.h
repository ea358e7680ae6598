// A rank's part in the sums of gradients by groups: a thread of its own that sends, adds and updates
// while the performing thread goes on (schedule/gradient_exchange.h says what is sent to whom).
//
// A group is handed over when its gradient is complete. Of the groups under way the thread takes up
// first what is due first: the earlier iteration, then what the next forward pass needs first; on
// the links the same rule holds (urgency_of). With order = "first-come", of an iteration what was
// handed over first goes first, here and there. When a group is summed it is updated at once, and the
// forward pass that waits for it goes on.
//
//   performing thread   complete(s, g) ... complete(s, 0)        await_ready(s, 0) ...
//   this thread            sum of g, update of g, sum of 0, update of 0
//
// Where updates need to know all gradients before (Plan::updates_by_group), sums leave during the backward
// pass all the same, and who performs waits for all of them, then updates as it does without groups.
//
// Memory: gradients are summed where they lie. Beside them there is what was handed to the links
// and has not left yet, at most kCopiesMax or one group of a rank with one stage, and what came from
// faster replicas, at most one iteration's. Groups begin in the order in which they were handed
// over, the same on all replicas, so the oldest one is under way everywhere, and nobody waits for
// ever.
//
// Where the Plan's [exchange] is sparse, a group is a sparse update of each datacenter instead of a sum
// (sparse_updates.h). Its update is made when it is merged and no pass uses the group
// (group_versions.h): at once, or, with staleness, when the passes of the next iteration are done with
// it. Updates that came and wait for that are kept as blocks. What others of a datacenter hand to their
// leader does not count as copies then, and may be all gradients of an iteration.
//
// Where it has local steps, the sum is that of a datacenter, its update an inner step, and after some of
// them an outer step begins or ends (outer_step_scheduler.h). A group that waits for updates of others then is
// not up to date before it ended.
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
  kernels::Activity* activity = nullptr;     // hears of who waits; null: nobody asks
  const DensitySchedule* density = nullptr;  // of sparse updates; null, or silent: the Plan's
};

struct ExchangeHooks {
  // Before anything of iteration step + 1 is updated; or, where it is sparse, before anything of the
  // state changes for it: residuals do when updates are made of gradients.
  std::function<Status(int64_t step)> before_update = {};
  // All groups of this rank are; nobody who waits for the last of them knows yet.
  std::function<Status(int64_t iteration)> updated = {};
  // At most once: why whoever waits for a group is told so, now and later.
  std::function<void(const Error&)> failed = {};
};

class ExchangeThread final : public kernels::GroupWatcher {
 public:
  static constexpr int64_t kCopiesMax = int64_t{64} << 20;  // bytes

  // All outlive it.
  ExchangeThread(const plan::Plan& plan, const ExchangeOptions& options,
                 kernels::ParameterGroups& parameters, kernels::Messenger& messenger,
                 Threads& threads, ExchangeHooks hooks);
  ~ExchangeThread() override;  // leaves what is under way

  // --- the performing thread
  void begin_iteration(int64_t iteration);
  void complete(int32_t stage, int32_t group) override;
  Status await_ready(int32_t stage, int32_t group) override;
  // Without overlap: what is complete of this stage leaves now.
  void release(int32_t stage);
  Status await_stage(int32_t stage);  // all that was handed over of it is summed, and updated
  Status await_all();
  Status await_arrivals();  // and all that is on its way, though its outer step ends later
  // The gradients of this stage may change: their sparse updates are made. Else nothing to wait for.
  Status await_taken(int32_t stage);
  // Of the groups that passes began to use since the last call, how many were up to date.
  GroupVersions::Freshness take_freshness();
  // What came from other datacenters since the last call.
  Arrivals::Sum take_arrivals();
  // Of sparse updates of this iteration: as it was ordered when the iteration began.
  double density_of(int64_t iteration);
  // When await_... kept this thread waiting since the last call, in order; times of the Trace.
  struct Wait {
    SimTime start, end;
  };
  std::vector<Wait> take_waits() { return std::exchange(waits_, {}); }
  // Where passes came to a group since the last call, in order: computing stopped at `reached`, and went
  // on at `left`. A forward comes to a group that it begins to use, a backward to one that is complete.
  struct Border {
    int32_t group = 0;
    SimTime reached, left;
  };
  int32_t groups_of(int32_t stage) const {
    return static_cast<int32_t>(group_bytes_.at(stage).size());
  }
  std::vector<Border> take_borders() { return std::exchange(borders_, {}); }
  // What was done since the last call: of each group REDUCE_GRAD, from when it was handed over until
  // it was summed, its messages that came, and UPDATE.
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
    int64_t turn = 0;  // where who came first goes first: what began before; else 0
    Key key;
    bool outer = false;
    auto operator<=>(const Due&) const = default;
  };
  struct UnderWay {
    Key key;  // of the iteration in which it began
    SimTime since;
    int64_t bytes = 0;                       // where they lie
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
  bool leaving_ = false;                 // and nobody wants what is under way
  bool over_ = false;
  Status status_;

  std::unique_ptr<Thread> thread_;  // last: its end is awaited before all else goes
};

}  // namespace tombolo::exchange
