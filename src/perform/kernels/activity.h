// What a rank is doing, for a thread that reports it: does it compute, or wait for something else?
//
// A rank computes on the performing thread and, where gradients are exchanged group by group, on
// the exchange's (exchange_thread.h). A computation that hangs does not stop the heartbeats, which
// other threads send. All ranks stop then; the one at fault is the one that waits for nothing.
//
//   computes   from begin() to end(), except while it waits
//   waits      for messages (WatchedMessenger), for its own disk (checkpoint_writer.h), or for its
//              exchange's thread while that one waits
//
// Its count of done work grows with every action, held-out batch and message: within any iteration.
#pragma once

#include <cstdint>
#include <mutex>

#include "perform/kernels/messenger.h"

namespace tombolo::kernels {

class Activity {
 public:
  struct Report {
    int64_t done = 0;   // grows
    bool waits = true;  // or has nothing to do: before begin(), after end()
  };

  void begin() { set_working(true); }
  void end() { set_working(false); }
  void add_done();
  Report report() const;

  enum class Thread {
    kPerforming,
    kExchange
  };  // which one waits; passed in, since simulated threads have no ids
  enum class For { kOthers, kExchange };
  // While it lives its thread waits; kExchange: the performing thread waits for the exchange's. They
  // nest. A null `activity`: does nothing, as no thread reports.
  class Wait {
   public:
    explicit Wait(Activity* activity, For what = For::kOthers, Thread thread = Thread::kPerforming);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Activity* activity_;
    const For what_;
    const Thread thread_;
  };

 private:
  struct Waits {
    int others = 0, exchange = 0;
  };
  void set_working(bool working);
  void count(For what, Thread thread, int more);

  mutable std::mutex mutex_;
  bool working_ = false;
  int64_t done_ = 0;
  Waits of_performing_, of_exchange_;
};

// Counts waiting for a message as a wait: of the exchange's thread if its own wake-up is among the
// wanted messages, else of the performing one.
class WatchedMessenger : public Messenger {
 public:
  WatchedMessenger(Messenger& messenger, Activity& activity)
      : messenger_(messenger), activity_(activity) {}
  Status send(int32_t peer, link::Tag tag, link::Payload payload) override {
    return messenger_.send(peer, tag, std::move(payload));
  }
  Result<Came> receive_any(std::span<const Awaited> wanted) override;

 private:
  Messenger& messenger_;
  Activity& activity_;
};

}  // namespace tombolo::kernels
