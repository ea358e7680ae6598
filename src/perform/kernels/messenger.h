// Messenger: how a rank's bytes reach the others. Over an Endpoint, or in a test over anything
// else.
#pragma once

#include <span>

#include "perform/transport/endpoint.h"
#include "spec/action/action.h"
#include "spec/plan/plan.h"

namespace tombolo::kernels {

// Tensor numbers of an iteration. Those of a pipeline's messages lie far below evaluation, and from
// kReplicaTensor to kNormTensor they belong to Kernels, for what replicas and ends say to each
// other. Two ranks may have messages of several boundaries between stages to pass, each of which
// has kTensorsPerBoundary numbers: of those that replicas use, as many for each stage.
inline constexpr uint64_t kTensorsPerBoundary = uint64_t{1} << 24;
inline constexpr uint64_t kEvaluationTensor = uint64_t{1} << 40;
inline constexpr uint64_t kStagesMax = kEvaluationTensor / kTensorsPerBoundary;
inline constexpr uint64_t kAcknowledgeTensor = uint64_t{1} << 41;
inline constexpr uint64_t kReplicaTensor = uint64_t{1} << 42;
inline constexpr uint64_t kTiedTensor = uint64_t{1} << 43;  // between the ends of a pipeline

// What the ranks of a pipeline tell each other of their gradients' norm, before the update.
inline constexpr uint64_t kNormTensor = uint64_t{1} << 44;

// What they tell each other of their data, before the first iteration.
inline constexpr uint64_t kDataTensor = uint64_t{1} << 45;

// Of the gradient all-reduce by groups, and what a rank's threads send each other as a wake-up.
inline constexpr uint64_t kGroupTensor = uint64_t{1} << 46;
inline constexpr uint64_t kWakeTensor = uint64_t{1} << 47;
// Of ranks that answer prompts together: in no iteration, and after all messages of training.
inline constexpr uint64_t kPromptTensor = uint64_t{1} << 48;
inline constexpr link::Urgency kPromptUrgency = ~link::Urgency{0};

inline constexpr uint64_t kGroupsMax = uint64_t{1} << 12;  // of a stage
inline constexpr uint64_t kRoundsMax = uint64_t{1} << 12;  // of a group's exchange

// The message of one microbatch across the boundary between a stage and the next, as its sender
// and its receiver both number it.
uint64_t pipeline_tensor(const action::Action& message);
inline uint64_t replica_tensor(int32_t stage) {
  return kReplicaTensor + static_cast<uint64_t>(stage) * kTensorsPerBoundary;
}

// A message of the exchange of one group of parameters; `round` counts within it.
uint64_t group_tensor(int32_t stage, int32_t group, int64_t round);

// Which message goes first if several wait for one link: that of the earlier iteration; within it
// what the pipeline waits for, in the order of hand-over, which is that of the schedule; then
// messages between replicas (the gradient all-reduce, which only the update waits for): of groups,
// those first which the next forward pass needs first, or in the order in which they were
// handed over ([exchange] order); evaluation comes last. The launcher's messages go before all of
// them. A share goes when its message would; relays state an urgency of their own (cell_relay.h).
link::Urgency urgency_of(link::Tag tag, plan::ExchangeOrder order = plan::ExchangeOrder::kDeadline);
// What kind of message that is: "pipeline", "gradients" or "evaluation".
const char* class_of(link::Urgency urgency);

class Messenger {
 public:
  virtual ~Messenger() = default;
  virtual Status send(int32_t peer, link::Tag tag, link::Payload payload) = 0;

  // The first of several messages to arrive; if several are there, the one that comes first in
  // `wanted`. No deadline: it returns when one arrives, or when a peer of them is lost.
  using Awaited = transport::Endpoint::Awaited;
  using Came = transport::Endpoint::Came;
  virtual Result<Came> receive_any(std::span<const Awaited> wanted) = 0;
  Result<link::Received> receive(int32_t peer, link::Tag tag) {
    const Awaited wanted{peer, tag};
    return std::move(TRY(receive_any({&wanted, 1})).message);
  }
};

// The errors of an Endpoint are about peers, whatever their wording: all become kLostPeer, so that
// the launcher can distinguish a rank's own failure from that of its neighbours.
class EndpointMessenger : public Messenger {
 public:
  explicit EndpointMessenger(transport::Endpoint& endpoint,
                             plan::ExchangeOrder order = plan::ExchangeOrder::kDeadline)
      : endpoint_(endpoint), order_(order) {}
  Status send(int32_t peer, link::Tag tag, link::Payload payload) override;
  Result<Came> receive_any(std::span<const Awaited> wanted) override;

 private:
  transport::Endpoint& endpoint_;
  const plan::ExchangeOrder order_;
};

// The shape that makes loopback feel like the Plan's channel: its rate divided by run.byte_scale,
// as the payloads are, its delay as it is. Where [stage_times] gives an occupancy instead of a
// rate, the rate is what makes a payload of payload_bytes(plan) last that long.
//
// emulated_wan: this is an emulated island (cluster/islands.h), where a WAN channel is as many TCP
// connections over the emulator as the cluster file says, and gets no shape on top. Inside a
// datacenter nothing changes. On loopback the rate is what that many connections would have; the
// link has that many, up to the 16 that the transport makes.
link::LinkShape shape_between(const plan::Plan& plan, int32_t from, int32_t to,
                              bool emulated_wan = false);

// When a message was due on a link of this shape: on a paced link by the law, counted from when its
// first byte left; elsewhere when it came.
SimTime arrival_due(const link::Received& message, const link::LinkShape& shape);

}  // namespace tombolo::kernels
