// What a rank's thread does instead of sleeping while it waits for a message: computation that has
// nothing to do with training, in pieces that end when they said they would.
//
// Training comes first: a piece begins only while no message is there that the rank waits for, and
// should be over by the time that it is given: the end of the window that the Plan foresees, less a
// guard (steer/prefill/rank_windows.h), or, in a wait that it does not foresee, so long from now as a
// message may wait. A message that comes before waits for that one piece. Nothing of training is
// computed otherwise, so what it computes is the same, bit for bit.
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
  // Computes a piece that should end by then. False: there was none, or none so short. Must not
  // wait for anything. On the performing thread.
  virtual bool fill(SimTime until) = 0;

  // Messages that it waits for itself, from another rank's filler: they are handed over when they are
  // there and none of training is. Where that rank is lost, so is the run's rank, as with training.
  virtual std::optional<transport::Endpoint::Awaited> awaited() const { return std::nullopt; }
  // A failure ends the rank. On the performing thread.
  virtual Status take(const link::Payload& message);
};

// An EndpointMessenger whose owner fills what it waits for. Threads other than the one that made it
// wait as ever, and so do all where there is no filler.
class FillingMessenger : public kernels::EndpointMessenger {
 public:
  // `piece`: how long a message may have to wait that the Plan does not foresee. Without anything to
  // do it asks again every `glance`.
  struct Options {
    SimDuration piece{5'000'000};
    SimDuration glance{2'000'000};
    prefill::RankWindows* windows = nullptr;  // outlives it; null: nothing is foreseen
  };
  // How often a message was there before the piece was over that ran then, and for how long.
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
