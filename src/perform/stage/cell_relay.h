// A rank's part in pipelines of a DP-cell that share the WAN in time (link/relay.h says how). Plan
// and Schedule determine whose shares it carries; a thread of its own carries them while the
// performing thread computes; the performing thread sees a Messenger.
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

// The boundaries over which this rank carries shares: at most two, each in both directions. The
// order of a boundary is that of the schedule's LinkOrder.
std::vector<link::Passage> passages_of(const plan::Plan& plan, const schedule::Schedule& schedule,
                                       int32_t rank);

// The members: ranks of this rank's stage that share the transfer to this neighbour in its pipeline,
// itself included, ascending. Empty if it sends alone.
std::vector<int32_t> members_towards(const plan::Plan& plan, int32_t rank, int32_t peer);

// shape_between, but for a shared transfer the shape of the members' links together.
link::LinkShape transfer_shape(const plan::Plan& plan, int32_t from, int32_t to,
                               bool emulated_wan = false);

// Splits shared messages and joins them again; passes all others on unchanged (evaluation,
// gradients).
class CellMessenger : public kernels::Messenger {
 public:
  CellMessenger(const plan::Plan& plan, int32_t rank, kernels::Messenger& messenger);
  Status send(int32_t peer, link::Tag tag, link::Payload payload) override;
  // A shared message can only be waited for alone, because its shares come from several ranks.
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

// Carries shares until those of the last iteration are handed over, or a peer is lost. The Endpoint
// must outlive it; to stop it early, abort the Endpoint.
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
