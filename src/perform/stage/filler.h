// What a rank's thread does instead of sleeping while it waits for a message: computation that has
// nothing to do with training, in pieces of a predictable length.
//
// Training comes first: a piece begins only while none of the messages that the rank waits for has
// arrived, and should end by the time that it is given: the end of the window that the Plan predicts,
// less a guard (steer/prefill/rank_windows.h), or, in a wait that is not predicted, as far from now
// as a message may be delayed. A message that arrives earlier waits for that one piece. Training
// itself computes nothing in another way, so its results are the same, bit for bit.
#pragma once

#include <optional>
#include <thread>

#include "base/clock.h"
#include "perform/kernels/messenger.h"
#include "steer/prefill/rank_windows.h"

namespace tombolo::stage {

class Filler {
 public:
  virtual ~Filler() = default;
  // Computes a piece that should end by then. False: there was none, or none that short. Must not
  // wait for anything. On the performing thread.
  virtual bool fill(SimTime until) = 0;

  // Messages that the filler itself waits for, from another rank's filler: they are passed to take()
  // when they have arrived and none of training has. If that rank is lost, this rank fails, as it
  // would in training.
  virtual std::optional<transport::Endpoint::Awaited> awaited() const { return std::nullopt; }
  // A failure ends the rank. On the performing thread.
  virtual Status take(const link::Payload& message);
};

// An EndpointMessenger whose owner fills its waits. Threads other than the one that made it wait as
// usual, and so do all if there is no filler.
class FillingMessenger : public kernels::EndpointMessenger {
 public:
  // `piece`: how long a message may be delayed in a wait that the Plan does not predict. If the
  // filler has nothing to do it is asked again every `glance`.
  struct Options {
    SimDuration piece{5'000'000};
    SimDuration glance{2'000'000};
    prefill::RankWindows* windows = nullptr;  // outlives it; null: no wait is predicted
  };
  // How often a message arrived before the piece that was running had ended, and how long it waited.
  struct Held {
    int64_t times = 0;
    SimDuration sum, longest;
  };
  FillingMessenger(transport::Endpoint& endpoint, Filler* filler, const Clock& clock,
                   Options options, plan::ExchangeOrder order = plan::ExchangeOrder::kDeadline)
      : kernels::EndpointMessenger(endpoint, order),
        endpoint_(endpoint),
        filler_(filler),
        clock_(clock),
        options_(options) {}

  Result<Came> receive_any(std::span<const Awaited> wanted) override;

  // How long it has filled, and in how many pieces.
  SimDuration filled() const { return filled_; }
  int64_t pieces() const { return pieces_; }
  const Held& held() const { return held_; }

 private:
  SimTime end_of_piece(SimTime begin) const;
  void note_held(SimDuration by);

  transport::Endpoint& endpoint_;
  Filler* filler_;
  const Clock& clock_;
  Options options_;
  const std::thread::id owner_ = std::this_thread::get_id();
  SimDuration filled_;
  int64_t pieces_ = 0;
  Held held_;
};

}  // namespace tombolo::stage
