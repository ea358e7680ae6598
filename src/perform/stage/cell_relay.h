// A rank's part in pipelines of a DP-cell that share the WAN in time (link/relay.h says how): whose
// shares it carries follows from Plan and Schedule; a thread of its own carries them while the
// performing thread computes; and to the performing thread it all looks like a Messenger.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "perform/kernels/messenger.h"
#include "perform/link/relay.h"
#include "spec/plan/plan.h"
#include "spec/schedule/schedule.h"

namespace tombolo::stage {

// Over which boundaries this rank carries shares: at most two, each in both directions. The order
// of a boundary is that of the schedule's LinkOrder.
std::vector<link::Passage> passages_of(const plan::Plan& plan, const schedule::Schedule& schedule,
                                       int32_t rank);

// The ranks of this one's stage whose pipelines share with it what it sends to this neighbour in its
// pipeline, itself among them, ascending: the members. Empty where it sends by itself.
std::vector<int32_t> members_towards(const plan::Plan& plan, int32_t rank, int32_t peer);

// shape_between, and for a shared transfer what the members' links are together.
link::LinkShape transfer_shape(const plan::Plan& plan, int32_t from, int32_t to,
                               bool emulated_wan = false);

// Cuts what is shared and joins it again; passes everything else on as it is (evaluation, sums).
class CellMessenger : public kernels::Messenger {
 public:
  CellMessenger(const plan::Plan& plan, int32_t rank, kernels::Messenger& messenger);
  Status send(int32_t peer, link::Tag tag, link::Payload payload) override;
  // Of a shared message it waits by itself: it comes from several.
  Result<Came> receive_any(std::span<const Awaited> wanted) override;

 private:
  // The ranks that share this message; none: it is sent by this rank alone.
  std::span<const int32_t> members(int32_t peer, const link::Tag& tag) const;
  Result<link::Received> gather(std::span<const int32_t> members, link::Tag tag);
  uint32_t place(std::span<const int32_t> members) const;  // of this rank

  const plan::Plan& plan_;
  const int32_t rank_;
  kernels::Messenger& messenger_;
  std::vector<int32_t> before_, after_;  // members towards the stage before this one, and after it
};

// Carries until the last iteration's shares are handed over, or a peer is lost. The Endpoint must
// outlive it; to stop it early, abort that.
class RelayThread {
 public:
  // on_failure: at most once, on that thread.
  RelayThread(transport::Endpoint& endpoint, link::Relay relay,
              std::function<void(const Error&)> on_failure, Threads& threads);
  Status finish();  // waits for its end; once

 private:
  Status work();

  transport::Endpoint& endpoint_;
  link::Relay relay_;
  std::function<void(const Error&)> on_failure_;
  Status status_;
  std::unique_ptr<Thread> thread_;  // none: it was awaited
};

}  // namespace tombolo::stage
