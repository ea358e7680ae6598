// A rank's part in a DP-cell that shares the WAN in time (link/relay.h says how): whose
// shares it carries follows from Plan and Schedule; a thread of its own carries them while the
// performing thread computes; and to the performing thread it all looks like a Messenger.
#pragma once

#include <functional>
#include <thread>

#include "perform/link/relay.h"
#include "perform/runtime/messenger.h"
#include "spec/plan/plan.h"
#include "spec/schedule/schedule.h"

namespace tombolo::runtime {

// Over which boundaries this rank carries shares: at most two, each in both directions. The order
// of a boundary is that of the schedule's LinkOrder.
std::vector<link::Passage> passages_of(const plan::Plan& plan, const schedule::Schedule& schedule,
                                       int32_t rank);

// The ranks of a stage whose pipelines are in the same cell as this one, ascending: the members.
std::vector<int32_t> cell_of(const plan::Plan& plan, int32_t rank);

// Whether microbatches between these two neighbours in a pipeline are shared.
bool shares_transfer(const plan::Plan& plan, int32_t from, int32_t to);

// shape_between, and for a shared transfer what the cell's links are together.
link::LinkShape transfer_shape(const plan::Plan& plan, int32_t from, int32_t to,
                               bool emulated_wan = false);

// Cuts what is shared and joins it again; passes everything else on as it is (evaluation, sums).
class CellMessenger : public Messenger {
 public:
  CellMessenger(const plan::Plan& plan, int32_t rank, Messenger& messenger);
  Status send(int32_t peer, link::Tag tag, link::Payload payload) override;
  // Of a shared message it waits by itself: it comes from several.
  Result<Came> receive_any(std::span<const Awaited> wanted) override;

 private:
  Result<link::Received> gather(link::Tag tag);
  bool shares(int32_t peer, const link::Tag& tag) const;
  uint32_t place(int32_t rank) const;  // in its cell

  const plan::Plan& plan_;
  const int32_t rank_;
  Messenger& messenger_;
  const std::vector<int32_t> members_;
};

// Carries until the last iteration's shares are handed over, or a peer is lost. The Endpoint must
// outlive it; to stop it early, abort that.
class RelayThread {
 public:
  // on_failure: at most once, on that thread.
  RelayThread(transport::Endpoint& endpoint, link::Relay relay,
              std::function<void(const Error&)> on_failure);
  ~RelayThread();
  Status finish();  // waits for its end; once

 private:
  Status work();

  transport::Endpoint& endpoint_;
  link::Relay relay_;
  std::function<void(const Error&)> on_failure_;
  Status status_;
  std::thread thread_;
};

}  // namespace tombolo::runtime
