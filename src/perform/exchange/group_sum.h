// One replica's part in the all-reduce of one group of gradients, as a state machine: what it sends, what it waits for
// next, and what it does with that (schedule/gradient_exchange.h says who sends what).
//
// It knows neither links nor threads (exchange_thread.h has those). The values are summed in place. What is received is
// added in the order of the exchange, whenever it arrives, so all replicas end with the same bits. Numbers travel as
// floats, or as bf16: what is sent as bf16 is rounded in place, too, so that all members keep the same bits. Memory:
// none but the messages. If the exchange has messages with updates of datacenters instead (schedule/sparse_exchange.h,
// schedule/local_steps.h), DatacenterUpdates makes and takes them.
#pragma once

#include <span>
#include <vector>

#include "perform/exchange/datacenter_updates.h"
#include "perform/kernels/messenger.h"
#include "spec/schedule/gradient_exchange.h"

namespace tombolo::exchange {

class GroupSum {
 public:
  // ranks: of all replicas, of which this one is ranks[own]. Messages of round t are tagged first.tensor + t
  // (group_tensor). `values`, as many as the exchange is made for, outlive it, as does `updates`, which an exchange of
  // sparse updates needs. Numbers have 4 bytes on the wire or 2. If parameters are passed on (ZeRO 1) they take
  // `parameter_share` of the bytes of a sum: only that share of the numbers is sent, and the rest is set to NaN, for
  // emulated devices, which do not read it.
  GroupSum(const schedule::GradientExchange& exchange, std::span<const int32_t> ranks, size_t own,
           link::Tag first, std::span<float> values, DatacenterUpdates* updates = nullptr,
           size_t bytes_of_number = sizeof(float), double parameter_share = 1);

  struct Parcel {
    int32_t to = 0;
    link::Tag tag;
    link::Payload payload;
  };
  // What is sent before anything has to be received. Once, before all else.
  Result<std::vector<Parcel>> begin() { return go_on(); }
  // All is sent and all is received: the values are the sum.
  bool done() const { return round_ == rounds_.size(); }
  // The next message that counts, unless done().
  kernels::Messenger::Awaited wanted() const;
  // Takes that message; returns what is sent now. Fails if it is another message; do not use this object after that.
  Result<std::vector<Parcel>> take(const link::Received& message);

 private:
  struct Part {
    int32_t peer = 0;  // rank
    int64_t first = 0, count = 0;
    bool adds = false;
    int32_t update_of = -1;  // instead of elements, this datacenter's update
    int64_t travels = 0;     // of the elements
  };
  struct Round {
    std::vector<Part> out, in;
  };
  Result<std::vector<Parcel>> go_on();
  Result<link::Payload> payload_of(const Part& part);
  Status add(const Part& part, const link::Payload& payload);
  std::span<float> values_of(const Part& part) const;
  std::span<float> travelling(const Part& part) const;
  link::Tag tag() const { return {first_.iteration, first_.tensor + round_}; }

  std::vector<Round> rounds_;
  const link::Tag first_;
  const std::span<float> values_;
  DatacenterUpdates* const updates_;
  const bool in_bf16_;
  size_t round_ = 0;
  size_t taken_ = 0;  // of what comes in this round
};

}  // namespace tombolo::exchange
